"""batch.shared_by: ranks of one's own program that compute a sample together."""

from __future__ import annotations

import json

import pytest

from jobc.compiler.diagnostics.diagnostic import CompileError
from jobc.compiler.pipeline.compile import compile_job
from jobc.compiler.pipeline.types import CompiledJob, CompileRequest

JOB = ("procs=8", "launcher=accelerate", "batch.micro=2")


def compiled(*words: str, command: tuple[str, ...] | None = ("train.py",)) -> CompiledJob:
    return compile_job(CompileRequest((*JOB, *words), command))


def refused(*words: str, command: tuple[str, ...] | None = ("train.py",)) -> list[tuple[str, str]]:
    with pytest.raises(CompileError) as error:
        compiled(*words, command=command)
    return [(d.code, d.title) for d in error.value.diagnostics]


@pytest.mark.parametrize(
    ("words", "accumulation", "total"),
    [
        ((), 1, 16),
        (("batch.shared_by=4",), 1, 4),
        (("batch.shared_by=4", "batch.global=12"), 3, 12),
        (("batch.shared_by=8", "batch.accumulation=5"), 5, 10),
        (("batch.shared_by=2", "batch.accumulation=2", "batch.global=16"), 2, 16),
    ],
)
def test_the_global_batch_counts_each_sample_once(words: tuple[str, ...], accumulation: int, total: int) -> None:
    batch = compiled(*words).plan.train["batch"]
    assert (batch["accumulation"], batch["global"]) == (accumulation, total)


def test_deepspeed_gets_the_numbers_that_it_computes_itself() -> None:
    job = compiled("parallel=deepspeed", "batch.shared_by=4", "batch.global=12", "gpus=8")
    tree = json.loads(next(file.text for file in job.artifacts if file.path == "deepspeed.json"))
    names = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")
    assert [tree[name] for name in names] == [12, 2, 3]


def test_what_cannot_be_shared_is_refused() -> None:
    (found,) = refused("batch.shared_by=3")
    assert found == ("JC2026", "batch.shared_by=3 does not divide the ranks")
    (found,) = refused("batch.shared_by=2", command=None)
    assert found == ("JC2026", "batch.shared_by=2 needs your own program")
    (found,) = refused("batch.shared_by=4", "batch.global=14")
    assert found == ("JC2003", "batch.global=14 cannot be split over 2 groups of 4 ranks")
