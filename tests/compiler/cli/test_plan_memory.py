"""`jobc plan`: a GPU's memory by parts, and the hint if it is not enough (JC2120)."""

from __future__ import annotations

import json
import re

import pytest

from jobc.compiler.cli import main
from jobc.compiler.estimate.memory_hint import NOT_ALL

from ..conftest import Plan, figures
from ..hints import hint_of, words_of

OWN_DATA = (
    "data=target",
    "data._target_=my.Images",
    "model=target",
    "model._target_=my.Net",
    "estimate.parameters=1e6",
)


def test_shared_memory_is_shown_beside_the_memory(plan: Plan) -> None:
    shown = plan("backend=slurm", "mem=16GiB", "shm=8GiB")[1]
    assert re.search(r"requested +16.0 GiB\n +of which shared +8.0 GiB\n", shown)


def test_without_activations_the_sum_has_no_bound(plan: Plan) -> None:
    own, ours = ("estimate.parameters=7e9", "--", "python", "x.py"), ("task=gpt2_124m",)
    said = {words: plan(*words)[1] for words in (own, ours)}
    assert "without activations" in said[own] and "total" not in said[own] and "give or take" not in said[own]
    assert "without activations" not in said[ours] and "total" in said[ours] and "give or take" in said[ours]
    (unknown,) = json.loads(plan("--format", "json", *own)[1])
    assert unknown["memory"]["error"] is None


def test_an_optimizer_of_ones_own_leaves_the_sum_open_or_is_known(plan: Plan) -> None:
    words = ("task=gpt2_124m", "estimate.write_rate=1GiB", "optim=target", "optim._target_=torch.optim.SGD")
    (plain,) = figures(plan, *words)
    (heavy,) = figures(plan, *words, "optim.momentum=0.9")
    n = plain["parameters"]
    assert (plain["memory"]["optimizer"], heavy["memory"]["optimizer"]) == (0, 4 * n)
    assert (plain["memory"]["checkpoint"], heavy["memory"]["checkpoint"]) == (4 * n, 8 * n)
    words = (*words[:-1], "optim._target_=my_pkg.Shampoo", "estimate.gpu_mem=8GiB")
    printed, said = plan(*words)[1:]
    assert "without optimizer" in printed and "give or take" not in printed and "a checkpoint" not in printed
    assert not said, "no GPU is asked for"
    assert "weights, gradients and activations take about" in plan(*words, "gpus=8", "backend=slurm")[2]


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("task=gpt2_124m", "estimate.gpu_mem=16GiB"), "batch.micro=16 batch.accumulation=32"),
        (("task=gpt2_124m", "estimate.gpu_mem=6GiB"), "batch.micro=4 batch.accumulation=128"),
        (
            ("task=gpt2_124m", "batch.accumulation=null", "batch.global=4096", "estimate.gpu_mem=16GiB"),
            "batch.micro=16",
        ),
        (
            ("task=gpt2_124m", "batch.micro=1", "estimate.gpu_mem=2GiB"),
            "parallel=fsdp loop.compile=blocks",
        ),
        (
            ("task=gpt2_124m", "batch.micro=1", "model.layers=48", "model.context=8192", "estimate.gpu_mem=12GiB"),
            "loop.activation_checkpointing=1",
        ),
        (("estimate.parameters=7e9", "estimate.largest_unit=200000000", "estimate.gpu_mem=80GiB"), "parallel=fsdp"),
        (
            ("parallel=deepspeed", "parallel.zero_stage=1", "estimate.parameters=7e9", "estimate.gpu_mem=60GiB"),
            f"parallel.zero_stage=3{NOT_ALL}",
        ),
    ],
)  # fmt: skip
def test_what_takes_from_the_largest_part_is_hinted_and_is_enough(
    plan: Plan, words: tuple[str, ...], hint: str
) -> None:
    words = ("gpus=8", "cpus=64", "backend=slurm", *words)
    assert hint_of(plan(*words)[2], "JC2120") == hint
    assert not plan("--strict", *words, *words_of(hint))[2]
    assert main(["check", "--strict", *words, *words_of(hint)]) == 0


def test_where_nothing_is_enough_the_hint_says_so(plan: Plan) -> None:
    said = plan("gpus=8", "backend=slurm", "estimate.parameters=700e9", "estimate.gpu_mem=80GiB")[2]
    assert hint_of(said, "JC2120").startswith("more nodes with parallel=fsdp")
    assert not plan("gpus=0", "procs=8", "estimate.parameters=700e9", "estimate.gpu_mem=80GiB")[2], "no GPU is used"
    whole = ("estimate.parameters=7e9", "estimate.largest_unit=7000000000", "parallel=fsdp", "estimate.gpu_mem=24GiB")
    said = plan("gpus=8", "backend=slurm", *whole)[2]
    assert hint_of(said, "JC2120").startswith("a GPU with more memory"), "each rank gathers all of it"


@pytest.mark.parametrize("sharing", [("fsdp",), ("hsdp", "parallel.shards=8"), ("deepspeed", "parallel.zero_stage=3")])
def test_what_is_gathered_counts_when_somebody_says_how_much(plan: Plan, sharing: tuple[str, ...]) -> None:
    words = (f"parallel={sharing[0]}", *sharing[1:], "gpus=8", "cpus=64", "backend=slurm")
    words = (*words, "estimate.parameters=7e9", "estimate.gpu_mem=24GiB", "--strict")
    status, printed, said = plan(*words)
    assert (status, said) == (0, "") and re.search(r"without activations, largest_unit +\d", printed)
    assert main(["check", *words]) == 0
    status, printed, said = plan(*words, "estimate.largest_unit=200000000")
    assert (status, said) == (0, "") and re.search(r"without activations +\d", printed)
    status, _, said = plan(*words, "estimate.largest_unit=7000000000")
    assert status == 1 and "error[JC2120 " in said


def test_batches_of_the_workers_are_held_against_shared_memory(plan: Plan) -> None:
    words = ("procs=8", "loader.workers=4", "loader.prefetch=2", "batch.micro=32", "task=gpt2_124m", "shm=1GiB")
    (size,) = figures(plan, *words)
    assert size["batches"] == 2 * 8 * 4 * 2 * 32 * 8 * 1025
    own = ("procs=8", "loader.workers=4", "loader.prefetch=2", "batch.micro=32", "shm=1GiB", *OWN_DATA)
    assert figures(plan, *own)[0]["batches"] is None, "nobody says how large a sample is"
    assert figures(plan, *own, "loader.workers=0")[0]["batches"] == 0
    said = plan(*own, "estimate.sample_size=600KiB")[2]
    assert hint_of(said, "JC2131") == "shm=2400MiB"
    assert not plan("--strict", *own, "estimate.sample_size=600KiB", "shm=2400MiB")[2]
    assert hint_of(plan(*own, "estimate.sample_size=600KiB", "mem=2GiB")[2], "JC2131").startswith("loader.workers=0")
