"""The escape hatch of every backend: `backend.extra`, merged last into the tree that becomes the engine's file.

In   a document for Render.yaml, the tree that the user gave, the paths that the plan depends on
Out  the document with it merged in, whose lines lead back to `backend.extra`; a JC4600 for what would break the plan

The rule: a mapping is merged key by key; into a list of items that have a `name`, by that name, a new one at the end;
everything else replaces the existing value; null removes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ..diagnostics.diagnostic import Diagnostic
from ..plan.launch_plan import thaw
from .render import Omit

Path = tuple[str, ...]


def refuse_extra(
    extra: Mapping[str, Any], protected: Mapping[Path, str], section: Path = ("backend", "extra")
) -> Iterator[Diagnostic]:
    """JC4600 for each entry at, above or below a path that the plan says.

    protected: path -> the spec keys that say it, for people: ("num_processes",): "nodes and procs"; `*` is any key
    section:   the key that holds the tree
    """
    for extra_path in leaves(extra):
        owner = next((words for path, words in protected.items() if _touches(extra_path, path)), None)
        if owner is not None:
            key = ".".join((*section, *extra_path))
            because = f"jobc sets it from {owner}, and the scripts rely on it"
            hint = f"remove {key}, and set {owner}"
            yield Diagnostic("JC4600", f"{key} would contradict the plan", because, hint, key=key)


def merge_extra(document: Any, extra: Mapping[str, Any], at: Path = ("options", "extra")) -> Any:
    """The document, for Render.yaml or Render.json, with a tree merged in; `jobc why` finds its keys.

    at: where the views have it
    """
    return _merge(document, extra, at) if extra else document


def set_value(path: Path) -> Callable[[Any], Any]:
    """A leaf for Render.yaml that reads a view at a path, so that `jobc why` finds the key."""

    def read(views: Any) -> Any:
        value = getattr(getattr(views, path[0]), path[1])
        for key in path[2:]:
            value = value[key]
        return thaw(value)

    return read


def name_of(name: str, item: Mapping[str, Any]) -> Any:
    """Return a leaf for the name of an added item that depends on every value in the item.

    The text itself where the item is plain.
    """
    functions = [*_functions(item)]

    def read(views: Any) -> str:
        for leaf in functions:
            leaf(views)
        return name

    return read if functions else name


def _functions(node: Any) -> Iterator[Callable[[Any], Any]]:
    if isinstance(node, Mapping):
        for inner in node.values():
            yield from _functions(inner)
    elif isinstance(node, (list, tuple)):
        for inner in node:
            yield from _functions(inner)
    elif callable(node):
        yield node


def _merge(base: Any, extra: Any, path: Path) -> Any:
    if extra is None:
        return Omit
    if not isinstance(extra, Mapping) or not extra:
        return set_value(path)
    if callable(base):  # a leaf that may turn out to be a mapping
        return lambda views: _merge(base(views), extra, path)
    if _is_named(base):
        return _merge_named(base, extra, path)
    entries = base if isinstance(base, Mapping) else {}
    return {**entries, **{key: _merge(entries.get(key), value, (*path, key)) for key, value in extra.items()}}


def _is_named(base: Any) -> bool:
    items = isinstance(base, Sequence) and not isinstance(base, str) and base
    return bool(items) and all(isinstance(item, Mapping) and "name" in item for item in base)


def _merge_named(base: Sequence[Any], extra: Mapping[str, Any], path: Path) -> list[Any]:
    """Items of a list by their `name`, which for this must be text in the document and no function."""
    items = {item["name"]: item for item in base}
    for name, value in extra.items():
        item = _merge(items.get(name, {"name": name}), value, (*path, name))
        items[name] = item if name in items or not isinstance(item, Mapping) else {**item, "name": name_of(name, item)}
    return [item for item in items.values() if item is not Omit]


def leaves(tree: Any, at: Path = ()) -> Iterator[Path]:
    """The path of every value of a tree; an empty mapping is one."""
    if isinstance(tree, Mapping) and tree:
        for key, inner in tree.items():
            yield from leaves(inner, (*at, key))
    else:
        yield at


def _touches(first: Path, second: Path) -> bool:
    """Return whether one path equals, contains or is inside the other."""
    return all("*" in (a, b) or a == b for a, b in zip(first, second, strict=False)) and bool(first)
