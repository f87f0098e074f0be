"""Sort everything whose order does not matter, so that the order of overrides does not change the artifact.

In:  the composed tree, and the places in it where key order matters; the words on a command line.
Out: the same tree with all other mappings sorted by key; the words in sorted order.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ...trainer.config import target
from ..frontend.overrides import Override
from ..plugins.backend import Backend
from ..spec.job_spec import TARGETS

At = tuple[str, ...]
KeepsOrder = Callable[[At], bool]


def sort_mappings(tree: Any, keeps: KeepsOrder, path: At = ()) -> Any:
    """Return the tree with its mappings sorted. keeps: returns whether the mapping at a path keeps its order"""
    if isinstance(tree, dict):
        names = tree if keeps(path) else sorted(tree, key=str)
        return {name: sort_mappings(tree[name], keeps, (*path, str(name))) for name in names}
    if isinstance(tree, list):
        return [sort_mappings(item, keeps, (*path, str(i))) for i, item in enumerate(tree)]
    return tree


def make_order_predicate(tree: Mapping[str, Any], backend: Backend) -> KeepsOrder:
    """Return `keeps`: True for arguments of a user's own class, and wherever the backend keeps the order."""
    sections = {name for name in TARGETS if isinstance(section := tree.get(name), dict) and target.KEY in section}

    def keeps_order(path: At) -> bool:
        if path[:1] == ("backend",):
            return backend.keeps_order(path[1:])
        return path[:1] != () and path[0] in sections

    return keeps_order


def sort_overrides(
    words: Iterable[str], overrides: Sequence[Override], groups: Mapping[str, bool], keeps: KeepsOrder
) -> list[str]:
    """Return the words in a canonical order that compiles to the same job: group options first, all sorted by key.

    Words keep their relative order where it affects the result: among groups that have no default (and so no position),
    among overrides of the same key, between a mapping and keys inside it, and between the pairs that `keeps` selects.
    overrides: one for each word.
    groups: group with a chosen option -> whether the group has a default, and thus a position.
    """
    set_keys = {o.key for o in overrides if not _is_option(o, groups)}

    def sort_key(override: Override) -> tuple[int, str]:
        if _is_option(override, groups):
            return (1, override.key) if groups[_group_with_package(override)] else (0, "")
        parts = override.key.split(".")
        above = ((".".join(parts[:n]), tuple(parts[:n])) for n in range(1, len(parts)))
        return 2, next((key for key, path in above if key in set_keys or keeps(path)), override.key)

    placed = zip(map(sort_key, overrides), words, strict=True)
    return [word for _, word in sorted(placed, key=lambda pair: pair[0])]


def _group_with_package(override: Override) -> str:
    return f"{override.key}@{override.package}" if override.package else override.key


def _is_option(override: Override, groups: Mapping[str, bool]) -> bool:
    """Return whether an override chooses a config file. An override whose value is a mapping sets a section instead."""
    return _group_with_package(override) in groups and not override.canonical.partition("=")[2].startswith("{")
