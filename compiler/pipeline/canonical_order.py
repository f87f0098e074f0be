"""Sort everything that has no fixed order, so that the order of overrides does not change the artifact.

In   the composed tree, and where in it the order of keys has a meaning
Out  the same tree, each mapping sorted by its keys, but for those; and the words of a command line likewise
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ...trainer.config import target
from ..frontend.overrides import Override
from ..plugins.backend import Backend, OrderedBackend
from ..spec.job_spec import TARGETS

At = tuple[str, ...]
KeepsOrder = Callable[[At], bool]


def arranged(tree: Any, keeps: KeepsOrder, at: At = ()) -> Any:
    """keeps: whether the keys of the mapping at a path stay as they are"""
    if isinstance(tree, dict):
        names = tree if keeps(at) else sorted(tree, key=str)
        return {name: arranged(tree[name], keeps, (*at, str(name))) for name in names}
    if isinstance(tree, list):
        return [arranged(item, keeps, (*at, str(i))) for i, item in enumerate(tree)]
    return tree


def meaningful(tree: Mapping[str, Any], backend: Backend) -> KeepsOrder:
    """The arguments of a user's own class, for Python hands them over in order; and what the backend says."""
    sections = {name for name in TARGETS if isinstance(section := tree.get(name), dict) and target.KEY in section}

    def keeps(path: At) -> bool:
        if path[:1] == ("backend",):
            return isinstance(backend, OrderedBackend) and backend.keeps_order(path[1:])
        return path[:1] != () and path[0] in sections

    return keeps


def arranged_words(
    words: Iterable[str], overrides: Sequence[Override], groups: Mapping[str, bool], keeps: KeepsOrder
) -> list[str]:
    """The words that compile to the same, in one order: options of groups first, all by key.

    overrides: of each word; groups: those that the job chooses an option of, and whether each has a default, and so its
    place. Words keep the order they have to each other where it counts: of groups without a place, of one key, of a
    mapping and what is below it, and where `keeps` says so.
    """
    set_keys = {o.key for o in overrides if not _is_option(o, groups)}

    def place(override: Override) -> tuple[int, str]:
        if _is_option(override, groups):
            return (1, override.key) if groups[_group(override)] else (0, "")
        parts = override.key.split(".")
        above = ((".".join(parts[:n]), tuple(parts[:n])) for n in range(1, len(parts)))
        return 2, next((key for key, path in above if key in set_keys or keeps(path)), override.key)

    placed = zip(map(place, overrides), words, strict=True)
    return [word for _, word in sorted(placed, key=lambda pair: pair[0])]


def _group(override: Override) -> str:
    return f"{override.key}@{override.package}" if override.package else override.key


def _is_option(override: Override, groups: Mapping[str, bool]) -> bool:
    """Return whether an override chooses a config file; a mapping sets a section instead."""
    return _group(override) in groups and not override.canonical.partition("=")[2].startswith("{")
