"""Convert JSON values to frozen dataclasses and back, strictly: all problems are reported together, with their paths.

Supports int, float, str, bool, None, Literal, tuple, dataclass, and unions of dataclasses distinguished by their
`kind: Literal[...]` field. Such a union may include Target, which has `_target_` instead. A trailing underscore in a
field name (`global_`) is not part of the JSON key. Standard library only.
"""

import dataclasses
import difflib
import math
import types
from collections.abc import Mapping
from typing import Any, Literal, TypeGuard, TypeVar, Union, get_args, get_origin, get_type_hints

from . import target
from .target import Target

T = TypeVar("T")
_BROKEN: Any = object()  # placeholder for a value whose problem is already recorded


def parse_dataclass(tree: object, into: type[T]) -> tuple[T | None, list[str]]:
    """Convert `tree`, a result of json.loads, to `into`. Return the instance (None if invalid) and the problems."""
    problems: list[str] = []
    value = _value(tree, into, "", problems)
    return (None if problems else value), problems


def to_json_types(value: object) -> object:
    """Convert a result of parse_dataclass() to JSON types: dataclass and Target -> dict, tuple -> list."""
    if dataclasses.is_dataclass(value):
        return {json_key(field.name): to_json_types(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, (tuple, list)):
        return [to_json_types(item) for item in value]
    if isinstance(value, Mapping):
        return {key: to_json_types(item) for key, item in value.items()}
    return value


def json_key(field: str) -> str:
    """Return the JSON key of a field. `global` is a Python keyword, so its field is `global_`."""
    return field.rstrip("_")


def _value(tree: object, into: Any, path: str, problems: list[str]) -> Any:
    origin = get_origin(into)
    if dataclasses.is_dataclass(into):
        return _dataclass(tree, into, path, problems)
    if origin in (Union, types.UnionType):
        return _union(tree, get_args(into), path, problems)
    if origin is Literal:
        # compare types first because in Python 1 == True and 1 == 1.0
        if any(type(tree) is type(word) and tree == word for word in get_args(into)):
            return tree
        return _wrong(path, "one of " + ", ".join(map(str, get_args(into))), tree, problems)
    if origin is tuple:
        return _tuple(tree, get_args(into), path, problems)
    return _scalar(tree, into, path, problems)


def _scalar(tree: object, into: Any, path: str, problems: list[str]) -> Any:
    if into is type(None):
        return None if tree is None else _wrong(path, "null", tree, problems)
    if into is float:
        return float(tree) if is_number(tree) and _finite(tree) else _wrong(path, "a number", tree, problems)
    names = {int: "an integer", str: "text", bool: "true or false"}
    return tree if type(tree) is into else _wrong(path, names[into], tree, problems)


def is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _finite(number: float) -> bool:
    try:
        return math.isfinite(number)
    except OverflowError:  # an int too large for a float
        return False


def _tuple(tree: object, items: tuple[Any, ...], path: str, problems: list[str]) -> Any:
    if not isinstance(tree, list):
        return _wrong(path, "a list", tree, problems)
    if len(items) == 2 and items[1] is Ellipsis:
        items = (items[0],) * len(tree)
    if len(tree) != len(items):
        return _wrong(path, f"a list of {len(items)}", tree, problems)
    return tuple(
        _value(item, kind, f"{path}[{i}]", problems) for i, (item, kind) in enumerate(zip(tree, items, strict=True))
    )


def _union(tree: object, members: tuple[Any, ...], path: str, problems: list[str]) -> Any:
    if tree is None and type(None) in members:
        return None
    members = tuple(member for member in members if member is not type(None))
    if Target in members:
        members = tuple(member for member in members if member is not Target)
        if target.is_target(tree):
            return _target(tree, path, problems)
    if len(members) == 1:
        return _value(tree, members[0], path, problems)
    by_kind = {get_args(get_type_hints(member)["kind"])[0]: member for member in members}
    if not isinstance(tree, Mapping):
        return _wrong(path, "an object", tree, problems)
    kind = tree.get("kind")
    if not isinstance(kind, str) or kind not in by_kind:
        return _wrong(f"{path}.kind" if path else "kind", "one of " + ", ".join(by_kind), kind, problems)
    return _value(tree, by_kind[kind], path, problems)


def _target(tree: Any, path: str, problems: list[str]) -> Any:
    wrong = list(target.find_target_errors(tree, path))
    if "kind" in tree:
        wrong.append(f"{path}: has both kind and {target.KEY}; keep one")
    problems += wrong
    return _BROKEN if wrong else Target(tree)


def _dataclass(tree: object, into: Any, path: str, problems: list[str]) -> Any:
    if not isinstance(tree, Mapping):
        return _wrong(path, "an object", tree, problems)
    prefix = f"{path}." if path else ""
    hints = get_type_hints(into)
    fields = {json_key(field.name): field.name for field in dataclasses.fields(into)}
    for key in tree:
        if key not in fields:
            near = difflib.get_close_matches(str(key), fields, n=1)
            problems.append(f"{prefix}{key}: unknown key" + (f", did you mean {near[0]}?" if near else ""))
    values: dict[str, Any] = {}
    for key, name in fields.items():
        if key in tree:
            values[name] = _value(tree[key], hints[name], prefix + key, problems)
        else:
            problems.append(f"{prefix}{key}: missing")
    return _BROKEN if problems else into(**values)


def _wrong(path: str, expected: str, value: object, problems: list[str]) -> Any:
    shown = "null" if value is None else repr(value)
    problems.append(f"{path or 'top level'}: expected {expected}, found {shown[:60]}")
    return _BROKEN
