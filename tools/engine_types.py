"""Types of engine settings, in the words of engine_tables.json, from annotations and DeepSpeed's pydantic models."""

from __future__ import annotations

import enum
import inspect
import types
import typing
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from deepspeed.runtime.config_utils import DeepSpeedConfigModel

Table = dict[str, Any]
KINDS = {bool: "bool", int: "int", float: "number", str: "text", Path: "text"}
SAMPLES = {"text": "x", "list": ["x"], "mapping": {}}


def is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, DeepSpeedConfigModel)


def kind_of(annotation: Any) -> Any:
    """Return an annotation's type in the file's words, or "" if JSON cannot express it. A model yields its keys."""
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if is_model(annotation):
        return model_keys(annotation)
    if origin in (typing.Union, types.UnionType):
        kinds = [kind_of(argument) for argument in inner if argument is not type(None)]
        sections = [kind for kind in kinds if isinstance(kind, dict)]
        return sections[0] if sections else " or ".join(dict.fromkeys(filter(None, kinds)))
    if origin is typing.Literal:
        return "|".join(inner)
    if origin is not None:
        annotation = origin
    if annotation in (Any, object, inspect.Parameter.empty):
        return "any"
    if not isinstance(annotation, type):
        return "any"
    if issubclass(annotation, enum.Enum):
        return "int" if issubclass(annotation, int) else "|".join(member.value for member in annotation)
    if issubclass(annotation, Mapping):
        return "mapping"
    if issubclass(annotation, (list, tuple, typing.Sequence)) and annotation is not str:
        return "list"
    return next((word for kind, word in KINDS.items() if issubclass(annotation, kind)), "")


def model_keys(model: Any) -> Table:
    """Return every field name of a DeepSpeed model, and its alias, because both are accepted."""
    table: Table = {}
    for name, field in model.model_fields.items():
        kind = kind_of(field.annotation)
        if isinstance(kind, str):
            kind = with_bounds(kind, field.metadata)
            extra_kinds = [
                word for word, sample in SAMPLES.items() if word not in kind and accepts(model, name, sample)
            ]
            kind = " or ".join(filter(None, [kind, *extra_kinds])) if kind != "any" else kind
        table |= dict.fromkeys([name, *([field.alias] if field.alias else [])], kind or "auto")
    return table


def accepts(model: Any, name: str, value: Any) -> bool:
    try:
        model(**{name: value})
    except (ValueError, TypeError, AssertionError):
        return False
    return True


def with_bounds(kind: str, metadata: Iterable[Any]) -> str:
    signs = {"gt": ">", "ge": ">=", "lt": "<", "le": "<="}
    bounds = [
        (sign, getattr(constraint, name))
        for constraint in metadata
        for name, sign in signs.items()
        if hasattr(constraint, name)
    ]
    return kind + "".join(f"{sign}{bound:g}" for sign, bound in bounds)


def deprecated_keys(model: Any, section: str) -> dict[str, str]:
    extras = {name: field.json_schema_extra or {} for name, field in model.model_fields.items()}
    return {
        f"{section}.{name}": extra.get("new_param", "") for name, extra in extras.items() if extra.get("deprecated")
    }


def any_case(words: Iterable[str]) -> str:
    return "~" + "|".join(sorted(word for word in words if word))
