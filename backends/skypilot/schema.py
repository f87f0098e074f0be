"""Validate a task against SkyPilot's JSON Schema, without SkyPilot.

Only those parts of JSON Schema are supported that this schema uses.

schema.json is the output of `sky.utils.schemas.get_task_schema()`, `get_resources_schema()` and `get_storage_schema()`
in SkyPilot 0.14.1 (Apache License 2.0, github.com/skypilot-org/skypilot). SkyPilot checks a task with the same schemas,
including its own keyword `case_insensitive_enum`. tests/skypilot/ compares the schemas, and
tests/backends/test_skypilot_schema.py compares this validator with jsonschema. docs/decisions/0009-json-schema.md
explains why jobc does not import jsonschema.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

At = tuple[str | int, ...]
Problem = tuple[At, str]

TYPES: Mapping[str, Callable[[Any], bool]] = {
    "null": lambda v: v is None,
    "string": lambda v: isinstance(v, str),
    "boolean": lambda v: isinstance(v, bool),
    "integer": lambda v: (isinstance(v, int) and not isinstance(v, bool)) or (isinstance(v, float) and v.is_integer()),
    "number": lambda v: isinstance(v, (int, float)) and not isinstance(v, bool),
    "object": lambda v: isinstance(v, Mapping),
    "array": lambda v: isinstance(v, Sequence) and not isinstance(v, str),
    "any": lambda v: True,
}
# keyword -> the type of the values that it restricts, whether a value is valid, and what "the value must"
LIMITS: Mapping[str, tuple[str, Callable[[Any, Any], bool], str]] = {
    "enum": ("any", lambda v, words: v in words, "be one of {}"),
    "case_insensitive_enum": ("string", lambda v, words: v.lower() in map(str.lower, words), "be one of {}"),
    "pattern": ("string", lambda v, form: bool(re.search(form, v)), "have the form that SkyPilot expects"),
    "minLength": ("string", lambda v, least: len(v) >= least, "have at least {} characters"),
    "maxLength": ("string", lambda v, most: len(v) <= most, "have at most {} characters"),
    "minItems": ("array", lambda v, least: len(v) >= least, "have at least {} items"),
    "maxItems": ("array", lambda v, most: len(v) <= most, "have at most {} items"),
    "uniqueItems": ("array", lambda v, is_set: not is_set or not _has_duplicates(v), "list each item once"),
    "minProperties": ("object", lambda v, least: len(v) >= least, "have at least {} keys"),
    "maxProperties": ("object", lambda v, most: len(v) <= most, "have at most {} keys"),
    "minimum": ("number", lambda v, least: v >= least, "be at least {}"),
    "exclusiveMinimum": ("number", lambda v, least: v > least, "be more than {}"),
    "maximum": ("number", lambda v, most: v <= most, "be at most {}"),
}


def find_schema_errors(task: Mapping[str, Any]) -> list[Problem]:
    """Return SkyPilot's schema errors in a task given as plain data, as (place, reason)."""
    issues = list(_check_value(task, load_schemas()["task"], ()))
    if isinstance(task.get("resources"), Mapping):
        issues += _check_value(task["resources"], load_schemas()["resources"], ("resources",))
    mounts = task.get("file_mounts")
    for target, mount in mounts.items() if isinstance(mounts, Mapping) else ():
        if isinstance(mount, Mapping) and mount.get("store") != "volume":  # as in sky/task.py
            issues += _check_value(mount, load_schemas()["storage"], ("file_mounts", target))
    return issues


@cache
def load_schemas() -> Mapping[str, Any]:
    read: Mapping[str, Any] = json.loads(Path(__file__).with_name("schema.json").read_text(encoding="utf-8"))
    return read


def _has_duplicates(items: Sequence[Any]) -> bool:
    return len({json.dumps(item, sort_keys=True) for item in items}) < len(items)


def _check_value(value: Any, schema: Mapping[str, Any], path: At) -> Iterator[Problem]:
    kinds = schema.get("type", "any")
    names = [kinds] if isinstance(kinds, str) else kinds
    if not any(TYPES[name](value) for name in names):
        yield path, f"the value must be of type {' or '.join(names)}"
        return
    for keyword, (kind, is_valid, reason) in LIMITS.items():
        if keyword in schema and TYPES[kind](value) and not is_valid(value, schema[keyword]):
            limits = schema[keyword] if isinstance(schema[keyword], list) else [schema[keyword]]
            yield path, f"the value must {reason.format(', '.join(map(str, limits)))}"
    if isinstance(value, Mapping):
        yield from _check_keys(value, schema, path)
    elif TYPES["array"](value):
        for i, item in enumerate(value):
            yield from _check_value(item, schema.get("items", {}), (*path, i))
    yield from _check_branches(value, schema, path)


def _check_branches(value: Any, schema: Mapping[str, Any], path: At) -> Iterator[Problem]:
    for keyword in ("anyOf", "oneOf"):
        tried = [list(_check_value(value, branch, path)) for branch in schema.get(keyword, ())]
        fitting = tried.count([])
        if tried and (fitting == 0 or (keyword == "oneOf" and fitting > 1)):
            problems = [branch[0] for branch in tried if branch]
            yield max(problems, key=lambda problem: len(problem[0]), default=(path, "the value matches several forms"))
    if "not" in schema and not list(_check_value(value, schema["not"], path)):
        yield path, "the value has a key that is not allowed here"


def _check_keys(value: Mapping[str, Any], schema: Mapping[str, Any], path: At) -> Iterator[Problem]:
    properties, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    additional = schema.get("additionalProperties", True)
    for name in schema.get("required", ()):
        if name not in value:
            yield path, f"the value needs a key {name}"
    for name, inner in value.items():
        matching = [properties[name]] if name in properties else []
        matching += [sub for pattern, sub in patterns.items() if re.search(pattern, name)]
        if not matching and additional is False:
            yield (*path, name), "SkyPilot has no such key"
        elif not matching and isinstance(additional, Mapping):
            matching = [additional]
        for sub in matching:
            yield from _check_value(inner, sub, (*path, name))
