"""Merge `backend.extra`, every backend's escape hatch, into the tree that becomes the engine's file.

In:  a document for Render.yaml, the user's tree, and the paths that the plan sets.
Out: the merged document, in which added lines are traced to `backend.extra`; and JC4600 for entries that contradict the
     plan.

Mappings are merged key by key. Lists whose items have a `name` are merged by name, with new items at the end.
Anything else replaces the existing value; null removes it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ..diagnostics.diagnostic import Diagnostic
from ..plan.launch_plan import to_mutable_tree
from .render import Omit

Path = tuple[str, ...]


def check_extra_entries(
    extra: Mapping[str, Any], protected: Mapping[Path, str], section: Path = ("backend", "extra")
) -> Iterator[Diagnostic]:
    """Yield JC4600 for each entry at, above or below a path that the plan sets.

    protected: path -> description of the spec keys that set it: ("num_processes",): "nodes and procs", or "" if no key
               does; `*` matches any key.
    section:   the key that contains the tree.
    """
    for extra_path in value_paths(extra):
        owner = next((words for path, words in protected.items() if _paths_overlap(extra_path, path)), None)
        if owner is not None:
            key = ".".join((*section, *extra_path))
            because = f"jobc sets this key{owner and f' from {owner}'}, and the scripts rely on it"
            hint = f"remove {key}{owner and f', and use {owner}'}"
            yield Diagnostic("JC4600", f"{key} would contradict the plan", because, hint, key=key)


def merge_extra_entries(document: Any, extra: Mapping[str, Any], key_path: Path = ("options", "extra")) -> Any:
    """Return the document for Render.yaml or Render.json with the tree merged in, so that `jobc why` finds its keys.

    key_path: path of the tree in the views.
    """
    return _merge_node(document, extra, key_path) if extra else document


def value_leaf(path: Path) -> Callable[[Any], Any]:
    """Return a leaf for Render.yaml that reads the value at a path in the views, so that `jobc why` finds the key."""

    def read_value(views: Any) -> Any:
        value = getattr(getattr(views, path[0]), path[1])
        for key in path[2:]:
            value = value[key]
        return to_mutable_tree(value)

    return read_value


def extra_name_leaf(name: str, item: Mapping[str, Any]) -> Any:
    """Return a leaf for the name of an added item. The leaf depends on every value in the item.

    If no value of the item depends on the plan, return the plain name.
    """
    functions = [*_leaf_functions(item)]

    def read_name(views: Any) -> str:
        for leaf in functions:
            leaf(views)
        return name

    return read_name if functions else name


def _leaf_functions(node: Any) -> Iterator[Callable[[Any], Any]]:
    if isinstance(node, Mapping):
        for inner in node.values():
            yield from _leaf_functions(inner)
    elif isinstance(node, (list, tuple)):
        for inner in node:
            yield from _leaf_functions(inner)
    elif callable(node):
        yield node


def _merge_node(base: Any, extra: Any, path: Path) -> Any:
    if extra is None:
        return Omit
    if not isinstance(extra, Mapping) or not extra:
        return value_leaf(path)
    if callable(base):  # a leaf whose value may be a mapping
        return lambda views: _merge_node(base(views), extra, path)
    if _is_named(base):
        return _merge_named(base, extra, path)
    entries = base if isinstance(base, Mapping) else {}
    return {**entries, **{key: _merge_node(entries.get(key), value, (*path, key)) for key, value in extra.items()}}


def _is_named(base: Any) -> bool:
    items = isinstance(base, Sequence) and not isinstance(base, str) and base
    return bool(items) and all(isinstance(item, Mapping) and "name" in item for item in base)


def _merge_named(base: Sequence[Any], extra: Mapping[str, Any], path: Path) -> list[Any]:
    """Merge two lists by the `name` of their items. In the document, each `name` must be plain text."""
    items = {item["name"]: item for item in base}
    for name, value in extra.items():
        item = _merge_node(items.get(name, {"name": name}), value, (*path, name))
        items[name] = (
            item if name in items or not isinstance(item, Mapping) else {**item, "name": extra_name_leaf(name, item)}
        )
    return [item for item in items.values() if item is not Omit]


def value_paths(tree: Any, prefix: Path = ()) -> Iterator[Path]:
    """Yield each value's path in a tree. An empty mapping is a value too."""
    if isinstance(tree, Mapping) and tree:
        for key, inner in tree.items():
            yield from value_paths(inner, (*prefix, key))
    else:
        yield prefix


def _paths_overlap(first: Path, second: Path) -> bool:
    return all("*" in (a, b) or a == b for a, b in zip(first, second, strict=False)) and bool(first)
