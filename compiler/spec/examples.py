"""Build examples for hints: a valid value for a key, and the override that sets it; and describe invalid values."""

import dataclasses
import re
import shlex
from collections.abc import Callable, Mapping
from typing import Any, get_args

from ..diagnostics.diagnostic import nearest
from ..diagnostics.origin import is_null
from . import aliases
from .invalid_value import InvalidValue
from .type_hints import accepted_words, dataclass_field_types, hint_value_type, is_mapping, union_members

KEY_LIST = "jobc --help lists the keys"
IMAGE = "pytorch/pytorch:2.9.0-cuda12.8-cudnn9-runtime"  # has bash, Python and PyTorch


def example_value(options: tuple[Any, ...], text: str = "") -> str:
    """Return a valid value of the type: the text itself if it is valid, or else one that the type's reader recommends.

    text: a list's items, or the first values of a section in a list.
    """
    option = next(o for o in options if o is not type(None))
    words = accepted_words(option)
    scalar = hint_value_type(option)
    if words:
        return text if text in words else (nearest(text, words) or words)[0]
    if scalar is None:
        items = re.split(r"[\s,]+", text) if text else []
        is_section = is_mapping(option) or dataclasses.is_dataclass(option)
        return "{}" if is_section else _list_example(get_args(option), items)
    if not text and scalar.example:
        return scalar.example
    try:
        value = scalar.parse(text)
    except InvalidValue as error:
        return accepted_examples(error.values, type(None) in options)[0]
    return text or scalar.show(value) or "TEXT"


def accepted_examples(values: tuple[str, ...], nullable: bool) -> tuple[str, ...]:
    return tuple(value for value in values if nullable or value != "null") or ("TEXT",)


def _list_example(types_of_items: tuple[Any, ...], typed_items: list[str]) -> str:
    """Return an example list that has as many items as the type. The last item may repeat."""
    first = types_of_items[0]
    if types_of_items[-1] is Ellipsis and not typed_items:
        return "[]"
    if isinstance(first, type) and dataclasses.is_dataclass(first):
        needed = [
            (name, hint) for name, hint in dataclass_field_types(first).items() if type(None) not in union_members(hint)
        ]
        texts = [*typed_items, *[""] * len(needed)]
        keys = (f"{name}: {example_value((hint,), text)}" for (name, hint), text in zip(needed, texts, strict=False))
        return f"[{{{', '.join(keys)}}}]"
    if types_of_items[-1] is Ellipsis:
        types_of_items = (first,) * len(typed_items)
    texts = [*typed_items, *(typed_items[-1:] or [""]) * len(types_of_items)]
    items = (example_value((hint,), text) for hint, text in zip(types_of_items, texts, strict=False))
    return f"[{','.join(items)}]"


def override_for_shell(key: str, value: str) -> str:
    return f"'{key}={value}'" if "{" in value else f"{key}={value}"


def list_of_texts(key: str, example: str = "TEXT") -> str:
    """Return the hint for a list whose items must be texts."""
    value = f"[{aliases.LIST_ITEMS.get(key, example)}]"
    override = shlex.quote(f"{key}={value}") if '"' in value else f"{key}={value}"
    return f"{override}, with one text per item"


def sweep_hint(text: str, key: str, fits: Callable[[str], bool]) -> str:
    """Return a hint to use -m, or "" if one of the values is invalid. fits: returns whether a value is valid"""
    is_sweep = "," in text and all(fits(value) for value in text.split(","))
    return f"for a sweep: jobc -m {key}={text}" if is_sweep else ""


def hint_for_invalid_word(key: str, text: str, nearest_word: str) -> str:
    """Return the hint for an invalid word. Words of other tools are mapped to jobc's."""
    section, _, name = key.rpartition(".")
    if section.rpartition(".")[2].isdigit():  # an item's keys cannot be set one by one
        return aliases.hint_for_foreign_option(text) or f"{name}: {nearest_word} in item {section}"
    word, lacks = aliases.value_from_alias(key, text) or nearest_word, aliases.hint_for_unsupported_feature(text)
    return f"{key}={word}; {lacks}" if lacks else f"{key}={word}"


def is_valid_as(scalar: Any, text: str) -> bool:
    try:
        scalar.parse(text)
    except InvalidValue:
        return False
    return True


def describe_kind(raw: Any) -> str:
    if isinstance(raw, list):
        return "a list"
    return "a mapping" if isinstance(raw, Mapping) else f"the single value {raw!r}"


def to_flow_style(raw: Any) -> str:
    """Return a value as a user would type it on the command line."""
    if isinstance(raw, list):
        return "[" + ",".join(to_flow_style(item) for item in raw) + "]"
    if isinstance(raw, Mapping):
        return "{" + ",".join(f"{name}: {to_flow_style(inner)}" for name, inner in raw.items()) + "}"
    return "null" if is_null(raw) else str(raw)
