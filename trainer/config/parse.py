"""Convert JSON values to frozen dataclasses and back, strictly: all problems are reported together, with their paths.

Supports int, float, str, bool, None, Literal, tuple, dataclass, and unions of dataclasses distinguished by their
`kind: Literal[...]` field. Such a union may include Target, which has `_target_` instead. A trailing underscore in a
field name (`global_`) is not part of the JSON key. Standard library only.
"""

import dataclasses
import difflib
import sys
import types
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any, Literal, TypeGuard, TypeVar, Union, get_args, get_origin, get_type_hints

from . import target
from .target import Target

T = TypeVar("T")
_BROKEN: Any = object()  # placeholder for a value whose problem is already recorded


def parse_dataclass(tree: object, value_type: type[T]) -> tuple[T | None, list[str]]:
    """Convert `tree`, from json.loads, to `value_type`. Return the instance (None if invalid) and the problems."""
    problems: list[str] = []
    value = _make_parser(value_type)(tree, "", problems)  # type: ignore[arg-type]  # classes are hashable
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


Parser = Callable[[object, str, list[str]], Any]  # (tree, path, problems) -> value


@cache
def _make_parser(value_type: Any) -> Parser:
    """Return the function that reads values of a type. Inspecting a type takes longer than reading a value."""
    origin, arguments = get_origin(value_type), get_args(value_type)
    if dataclasses.is_dataclass(value_type):
        hints, names = get_type_hints(value_type), [field.name for field in dataclasses.fields(value_type)]
        fields = {json_key(name): (name, _make_parser(hints[name])) for name in names}
        return partial(_parse_dataclass, value_type, fields)
    if origin in (Union, types.UnionType):
        return _make_union_parser(arguments)
    if origin is Literal:
        return partial(_parse_literal, arguments)
    if origin is tuple:
        return partial(_parse_tuple, arguments)
    return partial(_parse_scalar, value_type)


def _parse_literal(words: tuple[Any, ...], tree: object, path: str, problems: list[str]) -> Any:
    # compare types first because in Python 1 == True and 1 == 1.0
    if any(type(tree) is type(word) and tree == word for word in words):
        return tree
    return _report_wrong_value(path, "one of " + ", ".join(map(str, words)), tree, problems)


def _parse_scalar(value_type: Any, tree: object, path: str, problems: list[str]) -> Any:
    if value_type is float and is_number(tree) and abs(tree) <= sys.float_info.max:
        return float(tree)
    if type(tree) is value_type and value_type is not float:
        return tree
    names = {type(None): "null", int: "an integer", float: "a number", str: "text", bool: "true or false"}
    return _report_wrong_value(path, names[value_type], tree, problems)


def is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _parse_tuple(items: tuple[Any, ...], tree: object, path: str, problems: list[str]) -> Any:
    if not isinstance(tree, list):
        return _report_wrong_value(path, "a list", tree, problems)
    if len(items) == 2 and items[1] is Ellipsis:
        items = (items[0],) * len(tree)
    if len(tree) != len(items):
        return _report_wrong_value(path, f"a list of {len(items)}", tree, problems)
    return tuple(
        _make_parser(kind)(item, f"{path}[{i}]", problems)
        for i, (item, kind) in enumerate(zip(tree, items, strict=True))
    )


def _make_union_parser(members: tuple[Any, ...]) -> Parser:
    variants = [member for member in members if member not in (type(None), Target)]
    read_only_variant = _make_parser(variants[0]) if len(variants) == 1 else None
    by_kind = {get_args(get_type_hints(v)["kind"])[0]: _make_parser(v) for v in variants} if len(variants) > 1 else {}

    def parse_member(tree: object, path: str, problems: list[str]) -> Any:
        if tree is None and type(None) in members:
            return None
        if Target in members and target.is_target(tree):
            return _parse_target(tree, path, problems)
        if read_only_variant is not None:
            return read_only_variant(tree, path, problems)
        if not isinstance(tree, Mapping):
            return _report_wrong_value(path, "an object", tree, problems)
        kind = tree.get("kind")
        if not isinstance(kind, str) or kind not in by_kind:
            return _report_wrong_value(
                f"{path}.kind" if path else "kind", "one of " + ", ".join(by_kind), kind, problems
            )
        return by_kind[kind](tree, path, problems)

    return parse_member


def _parse_target(tree: Any, path: str, problems: list[str]) -> Any:
    wrong = list(target.find_target_errors(tree, path))
    if "kind" in tree:
        wrong.append(f"{path}: has both kind and {target.KEY}; keep one")
    problems += wrong
    return _BROKEN if wrong else Target(tree)


def _parse_dataclass(
    value_type: Any, fields: Mapping[str, tuple[str, Parser]], tree: object, path: str, problems: list[str]
) -> Any:
    if not isinstance(tree, Mapping):
        return _report_wrong_value(path, "an object", tree, problems)
    prefix = f"{path}." if path else ""
    for key in tree:
        if key not in fields:
            near = difflib.get_close_matches(str(key), fields, n=1)
            problems.append(f"{prefix}{key}: unknown key" + (f", did you mean {near[0]}?" if near else ""))
    values: dict[str, Any] = {}
    for key, (name, read) in fields.items():
        if key in tree:
            values[name] = read(tree[key], prefix + key, problems)
        else:
            problems.append(f"{prefix}{key}: missing")
    return _BROKEN if problems else value_type(**values)


def _report_wrong_value(path: str, expected: str, value: object, problems: list[str]) -> Any:
    shown = "null" if value is None else repr(value)
    problems.append(f"{path or 'top level'}: expected {expected}, found {shown[:60]}")
    return _BROKEN
