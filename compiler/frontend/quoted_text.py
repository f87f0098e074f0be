"""Keep the quotes in `backend.extra={a: '01', b: '7'}`, because in an untyped tree `'7'` is text and `7` is a number.

In:  a composed tree and the overrides that were applied to it. In their canonical form, text that would be a number or
     a boolean without its quotes is in double quotes; all other text is in single quotes (overrides.to_hydra).
Out: the tree, in which such text is marked as quoted, like text from a file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser

from ..diagnostics.origin import Origin, TextWithOrigin
from .overrides import Override, is_quoted_number

Path = tuple["str | int", ...]


def mark_quoted_text(tree: dict[str, Any], overrides: Sequence[Override]) -> dict[str, Any]:
    """Return a copy of the tree in which quoted text is marked. The given tree is not modified."""
    if not any('"' in override.canonical for override in overrides):
        return tree
    quoted: dict[Path, Origin] = {}
    for override in overrides:
        for path, is_quoted in _leaves_of_override(override):
            quoted = {known: origin for known, origin in quoted.items() if known[: len(path)] != path}
            if is_quoted:
                quoted[path] = override.origin
    for path, origin in quoted.items():
        tree = _mark_value_as_quoted(tree, path, origin)
    return tree


def _leaves_of_override(override: Override) -> Iterator[tuple[Path, bool]]:
    """Yield the path of each value that the override sets or removes, and whether it is in quotes."""
    path: Path = tuple(override.key.split("."))
    value = override.canonical.partition("=")[2]
    if value[:1] not in ("{", "[", '"'):
        yield path, False
        return
    parsed = OverridesParser.create().parse_override(override.canonical)
    yield from _leaves_of_value(parsed._value, path)


def _leaves_of_value(value: Any, path: Path) -> Iterator[tuple[Path, bool]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _leaves_of_value(inner, (*path, name))
        return
    yield path, is_quoted_number(value)
    if isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _leaves_of_value(inner, (*path, index))


def _mark_value_as_quoted(tree: Any, path: Path, origin: Origin) -> Any:
    """Return a copy of the tree with the text at the path, if there is any, marked as quoted."""
    if not path:
        return TextWithOrigin(tree, origin, quoted=True) if type(tree) is str else tree
    first, *rest = path
    if isinstance(tree, Mapping) and first in tree:
        return {**tree, first: _mark_value_as_quoted(tree[first], tuple(rest), origin)}
    if isinstance(tree, list) and isinstance(first, int) and first < len(tree):
        return [*tree[:first], _mark_value_as_quoted(tree[first], tuple(rest), origin), *tree[first + 1 :]]
    return tree
