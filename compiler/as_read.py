"""A file as whoever reads it takes it, as lines: two texts of one path with the same lines mean the same.

In   the path of a file, and its text
Out  the leaves of data, the statements of Python, what bash makes of a script; the lines as they are of any other file
Gone are comments, the order of keys, and the spaces that mean nothing to that reader.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from .equivalence.stage import statements

_HEAD = re.compile(r"(?:(?:#.*|[^\S\n]*)\n)*")  # of a script, before its first command


def as_read(path: str, text: str) -> list[str] | None:
    """None for a text that its reader refuses, such as one that somebody broke."""
    import yaml  # here, for two directories of the same bytes take none of it

    try:
        if path.endswith(".json"):
            return sorted(_leaves(json.loads(text), ""))
        if path.endswith((".yaml", ".yml")):
            documents = enumerate(yaml.load_all(text, yaml.CSafeLoader))
            return [line for number, document in documents for line in sorted(_leaves(document, f"{number}"))]
        if path.endswith(".py"):
            return ast.unparse(ast.parse(text.encode())).split("\n")
    except (ValueError, SyntaxError, RecursionError, yaml.YAMLError):
        return None
    if path.endswith((".sh", ".sbatch")):
        body = statements(text)
        return None if body is None else [*_directives(text), *body]
    return text.split("\n")


def _directives(script: str) -> list[str]:
    """Comments before the first command that a program reads: `#!` in line 1, and what has no space, as #SBATCH."""
    head = _HEAD.match(script)
    lines = head[0].split("\n") if head else []
    return [line for number, line in enumerate(lines) if re.match(r"#!" if number == 0 else r"#[^\s#!]", line)]


def _leaves(tree: Any, key: str) -> Iterator[str]:
    """A leaf is what it is read as: "0" and 0 differ, for Kubernetes refuses the one that has no quotes."""
    if isinstance(tree, Mapping) and tree:
        for name, inner in tree.items():
            yield from _leaves(inner, f"{key}.{name}")
    elif isinstance(tree, list) and tree:
        for number, inner in enumerate(tree):
            yield from _leaves(inner, f"{key}[{number}]")
    else:
        yield f"{key} = {tree!r}"
