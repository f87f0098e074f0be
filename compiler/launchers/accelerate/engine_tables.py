"""Look up which keys accelerate.yaml and deepspeed.json may contain, and which values the engine accepts.

In:  engine_tables.json, which tools/engine_tables.py generates from the installed accelerate, DeepSpeed and torch.
Out: for each key a section, a type as text, or None if the key is unknown; for each type is_accepted_value(), and
     descriptions and examples for people.

These checks are never stricter than the engine: pydantic, which parses most of deepspeed.json, converts 1e9 to an
integer and "yes" to true, and DeepSpeed drops the value "auto". Source: pydantic 2.14, Conversion Table, lax mode, JSON
input
"""

import json
import math
import operator
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

Section = Mapping[str, Any]  # key -> type, or section
KeyPath = tuple[str, ...]

_TYPE = re.compile(r"(any|bool|int|number|text|scalar|list|mapping|auto)((?:[<>]=?[^<>=]+)*)")
_BOUND = re.compile(r"([<>]=?)([^<>=]+)")
_COMPARISONS = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}
_BOOLEANS = ("0", "off", "f", "false", "n", "no", "1", "on", "t", "true", "y", "yes")
_NAMES = {
    "bool": "true or false", "int": "an integer", "number": "a number", "text": "text", "scalar": "text or a number",
    "list": "a list", "mapping": "a mapping", "any": "any value",
}  # fmt: skip
_EXAMPLES = {"bool": "true", "text": "TEXT", "scalar": "TEXT", "list": "[]", "mapping": "{}", "any": "auto"}


@cache
def load_engine_tables() -> Mapping[str, Any]:
    read: Mapping[str, Any] = json.loads(Path(__file__).with_name("engine_tables.json").read_text(encoding="utf-8"))
    return read


def engine_name_and_version(file: str) -> str:
    """Return the name and minor version of the engine that defines these keys. file: `accelerate` or `deepspeed`"""
    name = {"accelerate": "accelerate", "deepspeed": "DeepSpeed"}[file]
    return f"{name} {load_engine_tables()['versions'][file].rpartition('.')[0]}"


def section_keys(path: KeyPath, section: Section, tree: Mapping[str, Any]) -> Section:
    """Return the keys of a section. The keys in the `params` of an optimizer or scheduler depend on the `type` next to
    them.

    path: the section's path in its file.
    tree: the values that the user sets there.
    """
    if path not in (("optimizer",), ("scheduler",)):
        return section
    kinds, kind, params = load_engine_tables()[path[0]], str(tree.get("type")), tree.get("params")
    if kind.lower() in ("adam", "adamw") and isinstance(params, Mapping) and params.get("torch_adam") is True:
        kind = "adam torch_adam"
    return {**section, "params": kinds.get(kind) or kinds.get(kind.lower()) or "mapping"}


def is_accepted_value(rule: str, value: Any) -> bool:
    """Return whether the engine accepts a value. rule: a type of engine_tables.json"""
    return any(_rule_accepts(alternative, value) for alternative in rule.split(" or "))


def describe_valid_values(rule: str) -> str:
    """Return a readable description of the valid values: `an integer >= 0`."""
    return " or ".join(_describe_rule(alternative) for alternative in rule.split(" or "))


def example_value(rule: str) -> str:
    """Return a valid value in the form typed on the command line."""
    first = rule.partition(" or ")[0]
    match = _TYPE.fullmatch(first)
    if match is None:
        return rule_literals(first)[-1]
    if match[1] not in ("int", "number"):
        return _EXAMPLES.get(match[1], "auto")
    return next((text for text in ("1", "0.5", "0", "-1") if _rule_accepts(first, float(text))), "auto")


def rule_literals(rule: str) -> list[str]:
    """Return every literal in a rule. The list is empty if the rule only contains types."""
    parts = [part for part in rule.split(" or ") if not _TYPE.fullmatch(part)]
    return [word for part in parts for word in part.lstrip("~").split("|")]


def _rule_accepts(rule: str, value: Any) -> bool:
    match = _TYPE.fullmatch(rule)
    if match is None:
        allowed = rule_literals(rule)
        if rule.startswith("~") and isinstance(value, str):
            return value.lower() in (word.lower() for word in allowed)
        return isinstance(value, str) and value in allowed
    kind, bounds = match.groups()
    if kind in ("int", "number"):
        number = _number_or_none(value)
        if number is None or (kind == "int" and not (math.isfinite(number) and number == int(number))):
            return False
        return all(_COMPARISONS[sign](number, float(bound)) for sign, bound in _BOUND.findall(bounds))
    accepted: Mapping[str, bool] = {
        "any": True,
        "bool": isinstance(value, bool) or (isinstance(value, (int, float, str)) and _is_boolean(value)),
        "text": isinstance(value, str),
        "scalar": isinstance(value, (str, int, float)),
        "list": isinstance(value, (tuple, list)),
        "mapping": isinstance(value, Mapping),
        "auto": value == "auto",
    }
    return accepted[kind]


def _is_boolean(value: int | float | str) -> bool:
    return value.lower() in _BOOLEANS if isinstance(value, str) else value in (0, 1)


def _number_or_none(value: Any) -> float | int | None:
    if isinstance(value, (int, float)):
        return value
    try:
        return float(value) if isinstance(value, str) else None
    except ValueError:
        return None


def _describe_rule(rule: str) -> str:
    match = _TYPE.fullmatch(rule)
    if match is None:
        return f"one of {', '.join(rule_literals(rule))}"
    bounds = " and ".join(f"{sign} {bound}" for sign, bound in _BOUND.findall(match[2]))
    return f"{_NAMES.get(match[1], match[1])} {bounds}".strip()


# The value of gpu_ids in accelerate.yaml, which accelerate passes to CUDA_VISIBLE_DEVICES unchecked.
GPU_IDS_DESCRIPTION, GPU_IDS_EXAMPLE = 'all, or different GPUs of a node, such as "0,1"', "all"


def is_valid_gpu_ids(value: Any) -> bool:
    """Return whether the value is `all`, or a list of distinct numbers or UUIDs (CUDA Guide, CUDA_VISIBLE_DEVICES)."""
    if value == "all":
        return True
    names = str(value).split(",") if isinstance(value, str) or type(value) is int else []
    distinct = len({name.lstrip("0") if name.strip("0") else "0" for name in names}) == len(names) > 0
    return distinct and all(re.fullmatch(r"\d+|(GPU|MIG)-[\w/-]+", name) for name in names)
