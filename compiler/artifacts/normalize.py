"""Normalize a file to lines. Two files with the same normalized lines mean the same to the program that reads them.

In:  a file's path and text.
Out: lines. They are the leaves of a data file, a shell script as bash prints it, or the unchanged lines of any other
     file. Comments and insignificant spaces are removed, and keys are sorted.
"""

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from ...runtime.system.untrusted_files import MOST_DEPTH, Unreadable, parse_json
from ..bash_syntax import normalized_statements

MOST_LEAVES = 200_000
_HEAD = re.compile(r"(?:(?:#.*|[^\S\n]*)\n)*")  # a script's lines before its first command


def normalized_lines(path: str, text: str) -> list[str] | None:
    """Return the parsed text, or None if the parser rejects it, for example after a hand edit."""
    import yaml  # imported here, because comparing identical directories does not need it

    try:
        if path.endswith(".json"):
            return sorted(_format_leaves(parse_json(path, text), ""))
        if path.endswith((".yaml", ".yml")):
            _require_shallow_yaml(path, text)
            documents = enumerate(yaml.load_all(text, yaml.CSafeLoader))
            return [
                line
                for number, document in documents
                for line in sorted(_limit_lines(_format_leaves(document, f"{number}")))
            ]
    except (Unreadable, ValueError, RecursionError, MemoryError, yaml.YAMLError):
        return None
    if path.endswith((".sh", ".sbatch")):
        body = normalized_statements(text)
        return None if body is None else [*_directives(text), *body]
    return text.split("\n")


def _require_shallow_yaml(path: str, text: str) -> None:
    """Raise Unreadable for YAML nested deeper than MOST_DEPTH, which could overflow the C stack in libyaml's composer.

    Raises yaml.YAMLError for text that is not YAML.
    """
    import yaml

    if sum(map(text.count, "[{-:?")) <= MOST_DEPTH:  # each nesting level needs one of these characters
        return
    depth = 0
    for event in yaml.parse(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MOST_DEPTH:
            raise Unreadable(path, f"is nested more than {MOST_DEPTH} levels deep")


def _limit_lines(lines: Iterator[str]) -> list[str]:
    """Return the lines. Raises ValueError if there are implausibly many, for example because of YAML aliases."""
    first_lines = list(islice(lines, MOST_LEAVES + 1))
    if len(first_lines) > MOST_LEAVES:
        raise ValueError
    return first_lines


def _directives(script: str) -> list[str]:
    """Return a script's comments that programs read: `#!` in line 1, and directives such as #SBATCH at the top."""
    head = _HEAD.match(script)
    lines = head[0].split("\n") if head else []
    return [line for index, line in enumerate(lines) if re.match(r"#!" if index == 0 else r"#[^\s#!]", line)]


def _format_leaves(tree: Any, key: str) -> Iterator[str]:
    """Yield the leaves as parsed: "0" and 0 differ, because Kubernetes rejects the unquoted form."""
    if isinstance(tree, Mapping) and tree:
        for name, inner in tree.items():
            yield from _format_leaves(inner, f"{key}.{name}")
    elif isinstance(tree, list) and tree:
        for number, inner in enumerate(tree):
            yield from _format_leaves(inner, f"{key}[{number}]")
    else:
        yield f"{key} = {tree!r}"
