"""Normalize a file to lines as its reader sees it: two texts of one path with the same lines mean the same.

In   the path of a file, and its text
Out  the leaves of data, the statements of Python, what bash makes of a script; the lines as they are of any other file
Gone are comments, the order of keys, the spaces that mean nothing to that reader, and the unit of an amount, such as
200Gi and 204800Mi; so are the quotes of a value that a script gives a variable.
"""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from ..untrusted_files import Unreadable, parsed, require_shallow_yaml
from .bash_syntax import parses, statements
from .engine_units import quantity, slurm_bytes, slurm_seconds

MOST_LEAVES = 200_000
_HEAD = re.compile(r"(?:(?:#.*|[^\S\n]*)\n)*")  # of a script, before its first command


def as_read(path: str, text: str) -> list[str] | None:
    """Return the parsed text, or None if the parser rejects it, for example after a hand edit."""
    import yaml  # here, for two directories of the same bytes take none of it

    try:
        if path.endswith(".json"):
            return sorted(_leaves(parsed(path, text), ""))
        if path.endswith((".yaml", ".yml")):
            require_shallow_yaml(path, text)
            documents = enumerate(yaml.load_all(text, yaml.CSafeLoader))
            return [line for number, document in documents for line in sorted(_few(_leaves(document, f"{number}")))]
        if path.endswith(".py"):
            return ast.unparse(ast.parse(text.encode())).split("\n")
    except (Unreadable, ValueError, SyntaxError, RecursionError, MemoryError, yaml.YAMLError):
        return None
    if path.endswith((".sh", ".sbatch")):
        body = statements(text)
        return None if body is None else [*_directives(text), *_plain_values(body)]
    return text.split("\n")


def _few(lines: Iterator[str]) -> list[str]:
    """The lines; ValueError for more than any file has, such as those of aliases that repeat each other."""
    first_lines = list(islice(lines, MOST_LEAVES + 1))
    if len(first_lines) > MOST_LEAVES:
        raise ValueError
    return first_lines


def _directives(script: str) -> list[str]:
    """Comments before the first command that a program reads: `#!` in line 1, and what has no space, as #SBATCH."""
    head = _HEAD.match(script)
    lines = head[0].split("\n") if head else []
    return [_directive(s) for index, s in enumerate(lines) if re.match(r"#!" if index == 0 else r"#[^\s#!]", s)]


def _directive(line: str) -> str:
    """A line of #SBATCH with its time in seconds, and its memory in bytes."""
    match = re.fullmatch(r"(#SBATCH\s+--(time|mem)=)(\S+)", line)
    if match is None:
        return line
    try:
        return f"{match[1]}{(slurm_seconds if match[2] == 'time' else slurm_bytes)(match[3])}"
    except ValueError:  # such as UNLIMITED
        return line


def _plain_values(lines: list[str]) -> list[str]:
    """`A="b c";` as `A='b c';`, where the value is plain text: in an assignment bash splits no words."""
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


_MOST_CHECKS = 200  # runs of bash for one file, 2 ms each; values beyond that are compared with their quotes
# A value that is one plain text, in whatever quotes: what is within, and what ends the statement.
_VALUE = re.compile(
    r"(\s*(?:export |local |readonly )?[A-Za-z_]\w*=)(?:'([^'\n]*)'|\"([^\"$`\\\n]*)\"|([\w./:@%+,-]*))(;?)"
)


def _is_code(lines: list[str], number: int) -> bool:
    """Return whether a line is code, not part of a string of several lines: there a `)` is a syntax error."""
    return not parses("\n".join([*lines[:number], ")", *lines[number + 1 :]]))


def _leaves(tree: Any, key: str) -> Iterator[str]:
    """A leaf is what it is read as: "0" and 0 differ, for Kubernetes refuses the one that has no quotes."""
    if isinstance(tree, Mapping) and tree:
        for name, inner in tree.items():
            yield from _leaves(inner, f"{key}.{name}")
    elif isinstance(tree, list) and tree:
        for number, inner in enumerate(tree):
            yield from _leaves(inner, f"{key}[{number}]")
    else:
        yield f"{key} = {_amount(key, tree)!r}"


def _amount(key: str, leaf: Any) -> Any:
    """The value of a quantity of Kubernetes: what asks for resources, or says how large a volume is."""
    if not re.search(r"\.resources\.(?:limits|requests)\.[^\[\]]+$|\.sizeLimit$", key) or isinstance(leaf, bool):
        return leaf
    try:
        return str(quantity(leaf))
    except ValueError:
        return leaf
