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
}


def find_schema_errors(task: Mapping[str, Any]) -> list[Problem]:
    """Return SkyPilot's schema errors in a task given as plain data, as (place, reason)."""
    issues = list(_check(task, load_schemas()["task"], ()))
    if isinstance(task.get("resources"), Mapping):
        issues += _check(task["resources"], load_schemas()["resources"], ("resources",))
    mounts = task.get("file_mounts")
    for target, mount in mounts.items() if isinstance(mounts, Mapping) else ():
        if isinstance(mount, Mapping) and mount.get("store") != "volume":  # as in sky/task.py
            issues += _check(mount, load_schemas()["storage"], ("file_mounts", target))
    return issues


@cache
def load_schemas() -> Mapping[str, Any]:
    read: Mapping[str, Any] = json.loads(Path(__file__).with_name("schema.json").read_text(encoding="utf-8"))
    return read


def _check(value: Any, schema: Mapping[str, Any], at: At) -> Iterator[Problem]:
    kinds = schema.get("type")
    if kinds is not None:
        names = [kinds] if isinstance(kinds, str) else kinds
        if not any(TYPES[name](value) for name in names):
            yield at, f"the value must be of type {' or '.join(names)}"
            return
    if "enum" in schema and value not in schema["enum"]:
        yield at, f"the value must be one of {', '.join(map(str, schema['enum']))}"
    if isinstance(value, Mapping):
        yield from _object(value, schema, at)
    elif isinstance(value, str):
        yield from _text(value, schema, at)
    elif isinstance(value, Sequence):
        yield from _items(value, schema, at)
    elif not isinstance(value, bool) and value is not None:
        yield from _number(value, schema, at)
    yield from _check_branches(value, schema, at)


def _check_branches(value: Any, schema: Mapping[str, Any], at: At) -> Iterator[Problem]:
    for keyword in ("anyOf", "oneOf"):
        branches = schema.get(keyword)
        if branches is not None:
            tried = [list(_check(value, branch, at)) for branch in branches]
            fitting = sum(not branch_problems for branch_problems in tried)
            if fitting == 0 or (keyword == "oneOf" and fitting > 1):
                yield max(
                    (branch_problems[0] for branch_problems in tried if branch_problems),
                    key=lambda p: len(p[0]),
                    default=(at, "none fits"),
                )
    if "not" in schema and not list(_check(value, schema["not"], at)):
        yield at, "the value has a key that is not allowed here"


def _object(value: Mapping[str, Any], schema: Mapping[str, Any], at: At) -> Iterator[Problem]:
    properties, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    additional = schema.get("additionalProperties", True)
    for name in schema.get("required", ()):
        if name not in value:
            yield at, f"the value needs a key {name}"
    if not schema.get("minProperties", 0) <= len(value) <= schema.get("maxProperties", len(value)):
        yield at, f"the value has {len(value)} keys"
    for name, inner in value.items():
        matching = [sub for pattern, sub in patterns.items() if re.search(pattern, name)]
        if name in properties:
            matching.append(properties[name])
        for sub in matching:
            yield from _check(inner, sub, (*at, name))
        if not matching and isinstance(additional, Mapping):
            yield from _check(inner, additional, (*at, name))
        elif not matching and additional is False:
            yield (*at, name), "SkyPilot has no such key"


def _text(value: str, schema: Mapping[str, Any], at: At) -> Iterator[Problem]:
    words = schema.get("case_insensitive_enum")
    if words is not None and value.lower() not in (word.lower() for word in words):
        yield at, f"the value must be one of {', '.join(words)}"
    if "pattern" in schema and not re.search(schema["pattern"], value):
        yield at, f"{value!r} does not have the form that SkyPilot expects"
    if not schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value)):
        yield at, f"the value has {len(value)} characters"


def _items(value: Sequence[Any], schema: Mapping[str, Any], at: At) -> Iterator[Problem]:
    for i, item in enumerate(value):
        yield from _check(item, schema.get("items", {}), (*at, i))
    if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
        yield at, f"the value has {len(value)} items"
    if schema.get("uniqueItems") and len({json.dumps(item, sort_keys=True) for item in value}) < len(value):
        yield at, "an item is listed twice"


def _number(value: float, schema: Mapping[str, Any], at: At) -> Iterator[Problem]:
    least, above, most = (schema.get(name) for name in ("minimum", "exclusiveMinimum", "maximum"))
    if least is not None and value < least:
        yield at, f"the value must be at least {least}"
    if above is not None and value <= above:
        yield at, f"the value must be more than {above}"
    if most is not None and value > most:
        yield at, f"the value must be at most {most}"
