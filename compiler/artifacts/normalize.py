"""Normalize a file to lines. Two files with the same normalized lines mean the same to the program that reads them.

In:  a file's path and text.
Out: lines. They are the leaves of a data file, the statements of a Python file, a shell script as bash prints it, or
     the unchanged lines of any other file.

Comments and insignificant spaces are removed, keys are sorted, and amounts are converted to one unit, so that 200Gi
equals 204800Mi. In scripts, the quotes around assigned values are also removed.
"""

import ast
import re
import shlex
from collections.abc import Iterator, Mapping
from fractions import Fraction
from itertools import islice
from typing import Any

from ..bash_syntax import is_valid_bash, normalized_statements
from ..untrusted_files import Unreadable, parse_json, require_shallow_yaml

MOST_LEAVES = 200_000
_HEAD = re.compile(r"(?:(?:#.*|[^\S\n]*)\n)*")  # a script's lines before its first command


def normalized_lines(path: str, text: str) -> list[str] | None:
    """Return the parsed text, or None if the parser rejects it, for example after a hand edit."""
    import yaml  # imported here, because comparing identical directories does not need it

    try:
        if path.endswith(".json"):
            return sorted(_format_leaves(parse_json(path, text), ""))
        if path.endswith((".yaml", ".yml")):
            require_shallow_yaml(path, text)
            documents = enumerate(yaml.load_all(text, yaml.CSafeLoader))
            return [
                line
                for number, document in documents
                for line in sorted(_limit_lines(_format_leaves(document, f"{number}")))
            ]
        if path.endswith(".py"):
            return ast.unparse(ast.parse(text.encode())).split("\n")
    except (Unreadable, ValueError, SyntaxError, RecursionError, MemoryError, yaml.YAMLError):
        return None
    if path.endswith((".sh", ".sbatch")):
        body = normalized_statements(text)
        return None if body is None else [*_normalized_directives(text), *_unquoted_values(body)]
    return text.split("\n")


def _limit_lines(lines: Iterator[str]) -> list[str]:
    """Return the lines. Raises ValueError if there are implausibly many, for example because of YAML aliases."""
    first_lines = list(islice(lines, MOST_LEAVES + 1))
    if len(first_lines) > MOST_LEAVES:
        raise ValueError
    return first_lines


def _normalized_directives(script: str) -> list[str]:
    """Return a script's comments that programs read: `#!` in line 1, and directives such as #SBATCH at the top."""
    head = _HEAD.match(script)
    lines = head[0].split("\n") if head else []
    return [
        _normalized_directive(s) for index, s in enumerate(lines) if re.match(r"#!" if index == 0 else r"#[^\s#!]", s)
    ]


def _normalized_directive(line: str) -> str:
    """Return a #SBATCH line with its time converted to seconds, or its memory to bytes."""
    match = re.fullmatch(r"(#SBATCH\s+--(time|mem)=)(\S+)", line)
    if match is None:
        return line
    try:
        return f"{match[1]}{(_parse_slurm_duration if match[2] == 'time' else _parse_slurm_size)(match[3])}"
    except ValueError:  # such as UNLIMITED
        return line


def _unquoted_values(lines: list[str]) -> list[str]:
    """Return the lines with `A="b c";` rewritten as `A='b c';` where the value is plain text."""
    out, checks = list(lines), 0
    for number, line in enumerate(lines):
        match = _VALUE.fullmatch(line)
        if match is None:
            continue
        plain = f"{match[1]}{shlex.quote(''.join(part or '' for part in match.groups()[1:4]))}{match[5]}"
        if plain != line and checks < _MOST_CHECKS:
            checks += 1
            out[number] = plain if _is_code(lines, number) else line
    return out


_MOST_CHECKS = 200  # maximum number of bash runs per file, 2 ms each; after that, values keep their quotes
# An assignment of plain text in any quotes, up to the end of the statement.
_VALUE = re.compile(
    r"(\s*(?:export |local |readonly )?[A-Za-z_]\w*=)(?:'([^'\n]*)'|\"([^\"$`\\\n]*)\"|([\w./:@%+,-]*))(;?)"
)


def _is_code(lines: list[str], number: int) -> bool:
    """Return whether a line is code and not part of a multi-line string: in code, an extra `)` is a syntax error."""
    return is_valid_bash("\n".join([*lines[:number], ")", *lines[number + 1 :]])) is False


def _format_leaves(tree: Any, key: str) -> Iterator[str]:
    """Yield the leaves as parsed: "0" and 0 differ, because Kubernetes rejects the unquoted form."""
    if isinstance(tree, Mapping) and tree:
        for name, inner in tree.items():
            yield from _format_leaves(inner, f"{key}.{name}")
    elif isinstance(tree, list) and tree:
        for number, inner in enumerate(tree):
            yield from _format_leaves(inner, f"{key}[{number}]")
    else:
        yield f"{key} = {_normalized_quantity(key, tree)!r}"


def _normalized_quantity(key: str, leaf: Any) -> Any:
    """Return a Kubernetes quantity (resources, volume sizes) as a number; any other value unchanged."""
    if not re.search(r"\.resources\.(?:limits|requests)\.[^\[\]]+$|\.sizeLimit$", key) or isinstance(leaf, bool):
        return leaf
    try:
        return str(_parse_kubernetes_quantity(leaf))
    except ValueError:
        return leaf


# ---- Amounts. Invalid text raises ValueError.
# Source: the sbatch manual of Slurm 25.11 (--time, --mem), and the type Quantity of Kubernetes.

_UNITS = {
    "": Fraction(1),
    "m": Fraction(1, 1000),
    **{unit: Fraction(1000 ** (i + 1)) for i, unit in enumerate("kMGTPE")},
    **{f"{unit}i": Fraction(1024 ** (i + 1)) for i, unit in enumerate("KMGTPE")},
}


def _parse_slurm_size(text: str) -> int:
    """Return a `--mem` value in bytes. A number without a unit is in MiB."""
    power = "KMGT".index(text[-1]) + 1 if text[-1:] in (*"KMGT",) else 2
    return int(text.rstrip("KMGT")) << 10 * power


def _parse_slurm_duration(text: str) -> int:
    """Return a `--time` value in seconds: D-HH:MM:SS, HH:MM:SS, MM:SS, or a number of minutes."""
    days, _, clock = text.rpartition("-")
    numbers = [int(part) for part in clock.split(":")]
    if days:
        numbers += [0] * (3 - len(numbers))
    elif len(numbers) == 1:
        numbers = [0, *numbers, 0]
    hours, minutes, seconds = [0] * (3 - len(numbers)) + numbers
    return ((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + seconds


def _parse_kubernetes_quantity(text: object) -> Fraction:
    """Return a Kubernetes quantity, such as `64.5Gi`, `500m` or 8, as a number."""
    match = re.fullmatch(r"(\d+(?:\.\d*)?|\.\d+)([a-zA-Z]{0,2})", str(text))
    if match is None or match[2] not in _UNITS:
        raise ValueError(f"{str(text)!r} is not a quantity such as 64Gi")
    return Fraction(match[1]) * _UNITS[match[2]]
