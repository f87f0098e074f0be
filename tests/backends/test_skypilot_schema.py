"""Backend skypilot's small validator interprets SkyPilot's schema as jsonschema does, which SkyPilot uses."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator, ValidationError, validators

from jobc.backends.skypilot.schema import find_schema_errors, load_schemas

GOLDEN = Path(__file__).parents[1] / "golden" / "skypilot"
VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 1.5, 2.0, 10**6, "", "a", "aws", "AWS", "k8s/dev", "8+", "1x", "H100:8", "high",
    "x" * 300, [], ["a"], ["a", "a"], [1], [{}], {}, {"a": 1}, {"a": "b", "c": "d"}, {"H100": 8}, {"name": "a"},
)  # fmt: skip
ANNOTATIONS = {"$schema", "default", "description", "title"}
READ = {
    "type", "enum", "case_insensitive_enum", "pattern", "anyOf", "oneOf", "not", "required", "properties",
    "patternProperties", "additionalProperties", "minProperties", "maxProperties", "items", "minItems", "maxItems",
    "uniqueItems", "minLength", "maxLength", "minimum", "maximum", "exclusiveMinimum",
}  # fmt: skip


def case_insensitive(_: Any, words: list[str], value: Any, __: Any) -> Iterator[ValidationError]:
    """Check case_insensitive_enum like sky/utils/schemas.py."""
    if isinstance(value, str) and value.lower() not in [word.lower() for word in words]:
        yield ValidationError("not one of them")


REFERENCE = validators.extend(Draft7Validator, {"case_insensitive_enum": case_insensitive})


def reference_accepts(task: Mapping[str, Any]) -> bool:
    is_valid = REFERENCE(load_schemas()["task"]).is_valid(task)
    resources = task.get("resources")
    mounts = task.get("file_mounts")
    buckets = [mount for mount in (mounts.values() if isinstance(mounts, Mapping) else ()) if is_bucket(mount)]
    return (
        is_valid
        and (not isinstance(resources, Mapping) or REFERENCE(load_schemas()["resources"]).is_valid(resources))
        and all(map(REFERENCE(load_schemas()["storage"]).is_valid, buckets))
    )


def is_bucket(mount: Any) -> bool:
    """Return whether the mount is a bucket, like sky/task.py."""
    return isinstance(mount, Mapping) and mount.get("store") != "volume"


def keywords(schema: Any) -> Iterator[str]:
    """Every keyword of a schema; names of properties are none."""
    if isinstance(schema, Mapping):
        for name, inner in schema.items():
            yield name
            below = inner.values() if name in ("properties", "patternProperties") else [inner]
            for each in below:
                yield from keywords(each) if name not in ("enum", "default", "required") else ()
    elif isinstance(schema, list):
        for each in schema:
            yield from keywords(each)


def places(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Every container of a tree with each of its keys."""
    for key, inner in list(tree.items() if isinstance(tree, dict) else enumerate(tree)):
        yield tree, key
        if isinstance(inner, (dict, list)):
            yield from places(inner)


def known_names(schema: Any) -> Iterator[str]:
    if isinstance(schema, Mapping):
        yield from schema.get("properties", {})
        for inner in schema.values():
            yield from known_names(inner)
    elif isinstance(schema, list):
        for inner in schema:
            yield from known_names(inner)


def test_every_keyword_of_the_schema_is_read() -> None:
    assert {word for schema in load_schemas().values() for word in keywords(schema)} <= READ | ANNOTATIONS


@pytest.mark.parametrize("seed", range(4))
def test_a_mutated_task_is_refused_exactly_if_jsonschema_refuses_it(seed: int) -> None:
    draw = random.Random(seed)
    tasks = [yaml.safe_load(file.read_text()) for file in sorted(GOLDEN.glob("*/expected/task.sky.yaml"))]
    names = sorted({name for schema in load_schemas().values() for name in known_names(schema)})
    refused = 0
    for _ in range(300):
        task = copy.deepcopy(draw.choice(tasks))
        for _ in range(draw.randint(1, 2)):
            tree, key = draw.choice(list(places(task)))
            if draw.random() < 0.3 and isinstance(tree, dict):
                tree[draw.choice([*names, "no_such_key"])] = copy.deepcopy(draw.choice(VALUES))
            else:
                tree[key] = copy.deepcopy(draw.choice(VALUES))
        accepted = reference_accepts(task)
        refused += not accepted
        assert (not find_schema_errors(task)) == accepted, task
    assert 50 < refused < 290


HOOK = {"run": "true", "events": ["stop"]}


@pytest.mark.parametrize(
    ("hooks", "is_valid"),
    [
        ([HOOK], True),
        ([HOOK] * 32, True),
        ([HOOK] * 33, False),
        ([{**HOOK, "events": []}], False),
        ([{**HOOK, "run": "x" * 16_385}], False),
        ([{**HOOK, "run": ""}], False),
    ],
)
def test_lengths_of_hooks_are_checked_as_jsonschema_checks_them(hooks: list[Any], is_valid: bool) -> None:
    task = {"config": {"hooks": hooks}}
    assert (not find_schema_errors(task), reference_accepts(task)) == (is_valid, is_valid)
