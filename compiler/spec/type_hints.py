"""Inspect the spec's type hints: its keys, choices, and whether a hint is a list or a mapping."""

import dataclasses
import types
from collections.abc import Mapping
from functools import cache, reduce
from operator import or_
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from .value_types import PLAIN, ValueType


def spec_keys(into: type, prefix: str = "") -> list[str]:
    """Return a dataclass's dotted keys, with the keys of all union members."""
    keys: list[str] = []
    for name, hint in dataclass_field_types(into).items():
        key = join_key(prefix, name)
        keys.append(key)
        for variant in _dataclass_members(hint):
            keys += [k for k in spec_keys(variant, key) if k not in keys]
    return keys


def type_of_key(into: type, key: str) -> Any:
    """Return the type of a dotted key, or None if unknown. A key in an open mapping has the type of its values."""
    current: Any = into
    for part in key.split("."):
        if dataclasses.is_dataclass(current):
            current = dataclass_field_types(current).get(part)  # type: ignore[arg-type]
        elif variants := _dataclass_members(current):
            options = [dataclass_field_types(v)[part] for v in variants if part in dataclass_field_types(v)]
            current = reduce(or_, options) if options else None  # several members may have the key, such as `kind`
        elif get_origin(current) is not None and is_mapping(current):
            current = get_args(current)[1]
        else:
            return None
    return current


def accepted_words(hint: Any) -> tuple[str, ...]:
    """Return the words that a Literal or a boolean accepts, or () for other types."""
    words: list[str] = []
    for option in union_members(hint):
        if option is bool:
            words += ["true", "false"]
        elif get_origin(option) is Literal:
            words += [str(word) for word in get_args(option)]
    return tuple(words)


@cache
def dataclass_field_types(cls: type) -> dict[str, Any]:
    """Return key -> type of a dataclass's fields. Fields named after Python keywords end in `_`; keys do not."""
    field_types = get_type_hints(cls, include_extras=True)
    return {field.name.rstrip("_"): field_types[field.name] for field in dataclasses.fields(cls)}


def join_key(prefix: str, name: str) -> str:
    return f"{prefix}.{name}" if prefix else name


def union_members(hint: Any) -> tuple[Any, ...]:
    """Return a union's members, or the type itself."""
    if get_origin(hint) in (Union, types.UnionType):
        return tuple(option for member in get_args(hint) for option in union_members(member))
    return (hint,)


def _dataclass_members(hint: Any) -> list[type]:
    return [option for option in union_members(hint) if isinstance(option, type) and dataclasses.is_dataclass(option)]


def is_list(hint: Any) -> bool:
    """Return whether values of this type are written in brackets. A host list is one text (Annotated), not a list."""
    return any(get_origin(option) is tuple for option in union_members(hint))


def is_mapping(hint: Any) -> bool:
    origin = get_origin(hint)
    return isinstance(origin, type) and issubclass(origin, Mapping)


def hint_value_type(hint: Any) -> ValueType | None:
    """Return how a scalar type is read and written, or None for lists, mappings, sections and Literals."""
    for option in union_members(hint):
        if get_origin(option) is Annotated:
            return next(extra for extra in get_args(option)[1:] if isinstance(extra, ValueType))
        if isinstance(option, type) and option in PLAIN:
            return PLAIN[option]
    return None


def type_name(options: tuple[Any, ...]) -> str:
    option = next(o for o in options if o is not type(None))
    if get_origin(option) is Literal:
        return "one of " + ", ".join(str(word) for word in get_args(option))
    if is_mapping(option) or dataclasses.is_dataclass(option):
        return "a mapping"
    if get_origin(option) is tuple:
        return "a list"
    scalar = hint_value_type(option)
    return scalar.name if scalar else "text"
