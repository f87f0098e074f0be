"""What engines call the keys of a job leads to keys that there are."""

from __future__ import annotations

import dataclasses

import pytest

from jobc.compiler.diagnostics.diagnostic import CompileError
from jobc.compiler.pipeline.compile import compile_job
from jobc.compiler.pipeline.types import CompileRequest
from jobc.compiler.plugins.registry import find_plugins
from jobc.compiler.spec.aliases import KEYS
from jobc.compiler.spec.job_spec import JobSpec
from jobc.compiler.spec.type_hints import type_of_key
from jobc.tests.compiler.hints import mended, words_of

GROUPS = ("parallel",)  # chosen as a whole


@pytest.mark.parametrize("key", sorted({*KEYS} - {*GROUPS}))
def test_the_key_exists(key: str) -> None:
    section, _, name = key.partition(".")
    if section != "backend":
        assert type_of_key(JobSpec, key) is not None
        return
    options = [plugin.load().Options for plugin in find_plugins().values()]
    assert any(name in {field.name for field in dataclasses.fields(each)} for each in options)


@pytest.mark.parametrize(
    ("typed", "hint"),
    [
        ("entrypoint=train.py", "-- train.py"),
        ("+script=train.py", "-- train.py"),
        ("debug=true", "network.debug=true"),
        ("profile.active=2", "profile.steps=[5,6]"),
        ("parallel=hybrid_shard", "parallel=hsdp"),
        ("parallel.sharding_strategy=HYBRID_SHARD", "parallel=hsdp"),
        ("nodelist=a", "queue.nodelist=a"),
        ("cpus_per_task=8", "cpus, the number per node"),
        ("mem=200G", "mem=200GiB"),
        ("grad_clip=1.0", "optim.clip_norm=1.0"),
        ("trainer.gradient_clip_val=1", "optim.clip_norm=1"),
        ("parallel=zero3", "parallel=deepspeed parallel.zero_stage=3"),
        ("zero3=true", "parallel=deepspeed parallel.zero_stage=3"),
        ("strategy=fsdp", "parallel=fsdp"),
        ("strategy=tensor_parallel", "no tensor parallelism"),
        ("tp=2", "remove tp; the bundled trainer has no tensor parallelism; your own program may: -- train.py"),
        ("fp8=true", "no FP8"),
        ("loop.precision=fp8", "loop.precision=bf16; the bundled trainer has no FP8"),
        ("precision=16-mixed", "loop.precision=fp16"),
        ("optim.schedule=wsd", "no warmup-stable-decay (WSD) schedule"),
        ("wsd=true", "no warmup-stable-decay (WSD) schedule"),
        ("data.iterable=true", "no streaming"),
        ("torch_compile=true", "loop.compile=model"),
        ("use_spot=true", "backend=skypilot backend.use_spot=true"),
        ("pvc=claim", "kind: claim"),
        ("mounts=[{kind: pvc, source: a, target: /a, read_only: true}]", "kind: claim"),
        ("mounts=[{kind: shm, source: a, target: /a, read_only: true}]", "shm=8GiB"),
        ("mounts=[{kind: hosts, source: a, target: /a, read_only: true}]", "kind: host in item mounts.0"),
        ("mem=500", "mem=500GiB or mem=500MiB"),
        ("mem=64000", "mem=64000MiB"),
        ("shm=17179869184", "shm=16GiB"),
        ("labels={a: ~/b}", """'labels={a: "~/b"}'"""),
    ],
)
def test_a_word_of_another_tool_leads_to_the_key_and_its_hint_helps(typed: str, hint: str) -> None:
    with pytest.raises(CompileError) as refused:
        compile_job(CompileRequest((typed,)))
    (found,) = refused.value.diagnostics
    assert hint in found.hint
    if words := words_of(found.hint):
        try:
            compile_job(CompileRequest(tuple(mended([typed], words, typed))))
        except CompileError as error:
            assert found.code not in [d.code for d in error.diagnostics]


@pytest.mark.parametrize(
    ("typed", "other"),
    [("storag=3", "storage"), ("paralell=2", "parallel"), ("quue=true", "queue"), ("poimt=true", "point")],
)
def test_a_key_of_like_spelling_is_no_hint_when_it_cannot_have_the_value(typed: str, other: str) -> None:
    with pytest.raises(CompileError) as refused:
        compile_job(CompileRequest((typed,)))
    assert f"did you mean {other}=" not in refused.value.diagnostics[0].hint
