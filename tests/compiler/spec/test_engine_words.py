"""What engines call the keys of a job leads to keys that there are."""

from __future__ import annotations

import dataclasses

import pytest

from jobc.compiler.diagnostics.diagnostic import CompileError
from jobc.compiler.pipeline.compile import compile_job
from jobc.compiler.pipeline.types import Request
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


@pytest.mark.parametrize(
    ("typed", "hint"),
    [
        ("entrypoint=train.py", "-- train.py"),
        ("debug=true", "network.debug=true"),
        ("profile.active=3", "profile.steps=[5,6,7]"),
        ("parallel=hybrid_shard", "parallel=hsdp"),
        ("nodelist=a", "queue.nodelist=a"),
        ("cpus_per_task=8", "cpus=8"),
        ("grad_clip=1.0", "optim.clip_norm=1.0"),
        ("strategy=fsdp", "parallel=fsdp"),
        ("tp=2", "no tensor parallelism"),
        ("mem=200G", "mem=200GiB"),
    ],
)
def test_a_word_of_another_tool_leads_to_the_key(typed: str, hint: str) -> None:
    with pytest.raises(CompileError) as refused:
        compile_job(Request((typed,)))
    assert hint in refused.value.diagnostics[0].hint
