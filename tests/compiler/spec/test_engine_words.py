"""What engines call the keys of a job leads to keys that there are."""

from __future__ import annotations

import dataclasses

import pytest

from jobc.compiler.plugins.registry import find_plugins
from jobc.compiler.spec.aliases import KEYS
from jobc.compiler.spec.job_spec import JobSpec
from jobc.compiler.spec.type_hints import type_at

GROUPS = ("parallel",)  # chosen as a whole


@pytest.mark.parametrize("key", sorted(set(KEYS.values()) - set(GROUPS)))
def test_the_key_exists(key: str) -> None:
    section, _, name = key.partition(".")
    if section != "backend":
        assert type_at(JobSpec, key) is not None
        return
    options = [plugin.load().Options for plugin in find_plugins().values()]
    assert any(name in {field.name for field in dataclasses.fields(each)} for each in options)
