"""`jobc plan`: the figures of several sizes, and what they are held against."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

from jobc.compiler.cli import main
from jobc.compiler.estimate.relief import NOT_ALL

from .conftest import Plan
from .diagnosed import assert_complete
from .hints import words_of

QWEN = ("+experiment=qwen_image", "backend=ssh", "nodes=1,2,8")


def figures(plan: Plan, *words: str) -> list[dict[str, Any]]:
    status, printed, said = plan(*words, "--format", "json")
    assert (status, said) == (0, "")
    found: list[dict[str, Any]] = json.loads(printed)
    return found


def test_the_table_of_the_team_is_reproduced(plan: Plan) -> None:
    sizes = [size["schedule"] for size in figures(plan, *QWEN)]
    assert [size["world_size"] for size in sizes] == [8, 16, 64]
    assert [size["steps_ceil"] for size in sizes] == [4028, 2014, 504]
    assert [size["steps_floor"] for size in sizes] == [4027, 2013, 503]
    assert [round(size["steps_quotient"], 3) for size in sizes] == [4027.125, 2013.562, 503.391]
    assert [size["empty_slots"] for size in sizes] == [7, 7, 39]
    assert {size["samples"] for size in sizes} == {5 * 32217}


def test_what_is_left_out_of_an_epoch_is_not_counted(plan: Plan) -> None:
    sizes = [size["schedule"] for size in figures(plan, *QWEN, "loop.drop_last=true")]
    assert [size["steps_of_epoch"] for size in sizes] == [4027, 2013, 503]
    assert [size["samples"] for size in sizes] == [5 * 4027 * 8, 5 * 2013 * 16, 5 * 503 * 64]


def test_time_and_money_follow_from_a_step(plan: Plan) -> None:
    given = ("estimate.step_s=2.5", "gpu_type=H100", "estimate.prices.H100=2", "estimate.prices.any=9")
    one, _, eight = figures(plan, *QWEN, *given)
    assert one["epoch_s"] == 4028 * 2.5
    assert one["total_s"] == 5 * 4028 * 2.5
    assert eight["gpu_hours"] == pytest.approx(5 * 504 * 2.5 / 3600 * 64)
    assert eight["cost"] == pytest.approx(2 * eight["gpu_hours"])


def test_a_step_with_half_the_passes_takes_half_the_time(plan: Plan) -> None:
    words = ("task=gpt2_124m", "gpus=8", "batch.accumulation=null", "batch.global=4096", "nodes=1,2,4")
    sizes = figures(plan, *words, "estimate.step_s=8")
    assert [size["schedule"]["accumulation"] for size in sizes] == [16, 8, 4]
    assert [size["step_s"] for size in sizes] == [8, 4, 2]
    assert len({size["gpu_hours"] for size in sizes}) == 1, "the same samples on the same GPUs"
    assert [one["step_s"] for one in figures(plan, "batch.micro=8,16", "estimate.step_s=1")] == [1, 2]
    assert [one["step_s"] for one in figures(plan, "nodes=1,2", "estimate.step_s=3,5")] == [3, 5, 3, 5]


def former_run(folder: Path, lines: list[dict[str, Any]], **batch: int) -> str:
    """The word that takes the seconds of a step from a run with these metrics. batch: of attempt 0"""
    metrics, made = folder / "run/metrics/rank_00.jsonl", folder / "run/artifact/0/train.json"
    metrics.parent.mkdir(parents=True, exist_ok=True)
    metrics.write_text("".join(json.dumps(line) + "\n" for line in lines))
    if batch:
        made.parent.mkdir(parents=True, exist_ok=True)
        made.write_text(json.dumps({"batch": batch}))
    return f"estimate.run={folder}/run"


def test_a_former_run_gives_the_time_of_a_step(plan: Plan, tmp_path: Path) -> None:
    times = [9.0, 8.0, 7.0, 0.5, 0.25, 0.25]  # the first ones are slower
    lines = [{"step": n, "loss": 1.0, "step_s": s, "attempt": 0} for n, s in enumerate(times, 1)]
    lines += [{"step": 7, "loss": 1.0, "step_s": 60.0, "attempt": 1}]  # of other ranks, perhaps
    words = ("loop.steps=100", "batch.micro=4", "batch.accumulation=2")
    (unknown,) = figures(plan, former_run(tmp_path, lines), *words)
    assert unknown["total_s"] == 25.0
    (known,) = figures(plan, former_run(tmp_path, lines, micro=2, accumulation=1), *words)
    assert known["total_s"] == 100.0, "a rank has four times the samples here"


def test_lines_that_say_no_time_are_passed_over(plan: Plan, tmp_path: Path) -> None:
    wrong: list[Any] = ["x", None, -1.0, 0, True, float("nan"), float("inf"), 10**400]
    lines = [{"step": n, "loss": 1.0, "step_s": s} for n, s in enumerate([*wrong, 2.0], 1)]
    lines += [{"loss": 1.0, "step": "next"}, {"step": 3}]
    word = former_run(tmp_path, lines, micro=-1, accumulation=1)
    (size,) = figures(plan, word, "loop.steps=10")
    assert size["total_s"] == 20.0
    status, _, said = plan(former_run(tmp_path, lines[:-3]))
    assert status == 1 and "its metrics hold no step" in said


@pytest.mark.parametrize(
    "word",
    [
        "estimate.step_s=1e308", "estimate.step_s=-3", "estimate.step_s=0", "estimate.parameters=-7e9",
        "estimate.parameters=1e300", "estimate.prices.H100=-2", "estimate.prices.any=1e300",
    ],
)  # fmt: skip
def test_a_number_that_cannot_be_is_refused(plan: Plan, word: str) -> None:
    status, printed, said = plan(word)
    assert (status, printed) == (1, "")
    assert "JC1202" in said
    assert_complete(said)


@pytest.mark.parametrize(
    "word", ["estimate.parameters=inf", "estimate.step_s=nan", "estimate.prices.any=x", "estimate.parameters=007"]
)
def test_the_hint_for_what_is_no_number_is_within_its_limits(plan: Plan, word: str) -> None:
    said = plan(word)[2]
    assert "JC1202" in said
    for offered in said.partition("= hint: ")[2].strip().split(" or "):
        assert plan(offered)[0] == 0, offered


def test_the_largest_numbers_give_figures(plan: Plan) -> None:
    most = ("estimate.step_s=1e7", "estimate.parameters=1e15", f"loop.steps={2**63 - 1}", "estimate.prices.any=1e6")
    failing = ("estimate.write_rate=1KB", "estimate.mtbf=1s", "estimate.restart=365d", "estimate.gpu_mem=1GiB")
    for words in (
        most,
        (*most, *failing),
        (*most, "estimate.write_rate=1000PB", "estimate.mtbf=1s", "estimate.restart=45s"),
    ):
        status, printed, said = plan(*words, "gpus=8", "backend=slurm")
        assert status == 0 and "training" in printed and "JC9001" not in said, said


def test_shared_memory_is_shown_beside_the_memory(plan: Plan) -> None:
    shown = plan("backend=slurm", "mem=16GiB", "shm=8GiB")[1]
    assert re.search(r"asked for +16.0 GiB\n +of it shared +8.0 GiB\n", shown)


def test_csv_has_a_line_for_each_size(plan: Plan) -> None:
    status, printed, _ = plan(*QWEN, "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(printed)))
    assert status == 0
    assert [row["schedule.steps_of_epoch"] for row in rows] == ["4028", "2014", "504"]
    assert all(int(row["memory.total"]) > 0 for row in rows)


STARTS = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}


@pytest.mark.parametrize("ending", STARTS)
def test_the_same_figures_give_the_same_picture(plan: Plan, ending: str) -> None:
    drawn = []
    for _ in range(2):
        status, _, said = plan(*QWEN, "estimate.step_s=1", "--plot", f"sizes.{ending}")
        assert status == 0, said
        drawn.append(Path(f"sizes.{ending}").read_bytes())
    assert drawn[0].startswith(STARTS[ending])
    assert drawn[0] == drawn[1]
    assert b"<dc:date>" not in drawn[0] and b"CreationDate" not in drawn[0]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("estimate.run=nowhere",), "cannot take the time of a step from nowhere"),
        (("--plot", "sizes.gif"), "cannot draw sizes.gif"),
        (("--plot", "nodir/sizes.svg"), "there is no folder nodir"),
        (("--plot", ""), "--plot sizes.png"),
        (("--plot", "/"), "--plot /sizes.png"),
        (("estimate.samples=many",), "estimate.samples"),
    ],
)
def test_what_cannot_be_reckoned_is_said(plan: Plan, words: tuple[str, ...], said: str) -> None:
    status, printed, complaint = plan(*words)
    assert (status, printed) == (1, "")
    assert said in complaint
    assert_complete(complaint)


def test_a_fault_of_one_size_is_told_once(plan: Plan) -> None:
    status, _, said = plan("nodes=1,2,3", "batch.global=32")
    assert status == 1
    assert said.count("error[") == 1, said


def test_a_warning_of_several_sizes_is_told_once_with_its_points(
    plan: Plan, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("nodes=1,2,4", "gpus=8", "task=gpt2_124m", "estimate.gpu_mem=16GiB", "loop.steps=100", "time=3m")
    words = (*words, "batch.accumulation=null", "batch.global=4096", "estimate.step_s=16", "backend=slurm")
    main(["check", "-m", *words, "--format", "json"])
    found = {d["code"]: d for d in json.loads(capsys.readouterr().out)["diagnostics"] if d["severity"] == "warning"}
    assert found["JC2120"]["points"] == ["nodes=1", "nodes=2", "nodes=4"]
    assert found["JC2123"]["points"] == ["nodes=1", "nodes=2"], "1600 and 800 s are more than four attempts of 180 s"
    assert found["JC2123"]["because"].startswith("with nodes=1, the worst of these, training takes about 26m40s")
    assert not any("nodes=" in d["title"] for d in found.values())


def test_without_activations_the_sum_has_no_bound(plan: Plan) -> None:
    own, ours = ("estimate.parameters=7e9", "--", "python", "x.py"), ("task=gpt2_124m",)
    said = {words: plan(*words)[1] for words in (own, ours)}
    assert "without activations" in said[own] and "all of it" not in said[own] and "give or take" not in said[own]
    assert "without activations" not in said[ours] and "all of it" in said[ours] and "give or take" in said[ours]
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
    words = ("gpus=8", "backend=slurm", *words)
    assert hint_of(plan(*words)[2], "JC2120") == hint
    assert not plan("--strict", *words, *words_of(hint))[2]
    assert main(["check", "--strict", *words, *words_of(hint)]) == 0


def test_where_nothing_is_enough_the_hint_says_so(plan: Plan) -> None:
    said = plan("gpus=8", "backend=slurm", "estimate.parameters=700e9", "estimate.gpu_mem=80GiB")[2]
    assert hint_of(said, "JC2120").startswith("more nodes with parallel=fsdp")
    assert not plan("gpus=0", "procs=8", "estimate.parameters=700e9", "estimate.gpu_mem=80GiB")[2], "no GPU is used"
    whole = ("estimate.parameters=7e9", "estimate.largest_unit=7000000000", "parallel=fsdp", "estimate.gpu_mem=24GiB")
    said = plan("gpus=8", "backend=slurm", *whole)[2]
    assert hint_of(said, "JC2120").startswith("a GPU of more memory"), "each rank gathers all of it"


@pytest.mark.parametrize("sharing", [("fsdp",), ("hsdp", "parallel.shards=8"), ("deepspeed", "parallel.zero_stage=3")])
def test_what_is_gathered_counts_when_somebody_says_how_much(plan: Plan, sharing: tuple[str, ...]) -> None:
    words = (f"parallel={sharing[0]}", *sharing[1:], "gpus=8", "backend=slurm", "estimate.parameters=7e9")
    words = (*words, "estimate.gpu_mem=24GiB", "--strict")
    status, printed, said = plan(*words)
    assert (status, said) == (0, "") and re.search(r"without activations, largest_unit +\d", printed)
    assert main(["check", *words]) == 0
    status, printed, said = plan(*words, "estimate.largest_unit=200000000")
    assert (status, said) == (0, "") and re.search(r"without activations +\d", printed)
    status, _, said = plan(*words, "estimate.largest_unit=7000000000")
    assert status == 1 and "error[JC2120]" in said


def test_the_grace_holds_the_step_under_way_and_the_write(plan: Plan) -> None:
    words = ("estimate.parameters=4e9", "estimate.write_rate=1GiB")  # 45 s to write, and 60 s of grace
    assert not plan(*words, "estimate.step_s=10")[2]
    said = plan(*words, "estimate.step_s=20")[2]
    assert "takes about 45 s, after a step of 20 s" in said
    assert not plan(*words, "estimate.step_s=20", hint_of(said, "JC2121"))[2]


POD = "image=x:1 code=image code.root=/app storage.root=/s/r mounts=[{kind:claim,source:c,target:/s,read_only:false}]"


@pytest.mark.parametrize("engine", ["backend=slurm", "backend=ssh hosts=[a,b]", f"backend=kubernetes {POD}"])
@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("70e9", "512MiB", "20m"), "lifecycle.grace=52m20s time=1h13m"),
        (("1e9", "1KiB", "1h"), "lifecycle.grace=271d6h25m10s time=271d7h26m"),
        (("70e9", "512MiB", "55m"), "lifecycle.grace=52m20s"),
        (("70e9", "512MiB", "54m"), "lifecycle.grace=52m20s time=1h47m"),
    ],
)
def test_a_longer_grace_is_hinted_with_the_time_that_it_needs(
    plan: Plan, capsys: pytest.CaptureFixture[str], engine: str, words: tuple[str, ...], hint: str
) -> None:
    parameters, rate, time = words
    asked = ("nodes=2", *engine.split(), f"time={time}")
    asked = (*asked, f"estimate.parameters={parameters}", f"estimate.write_rate={rate}")
    assert hint_of(plan(*asked)[2], "JC2121") == hint
    main(["check", *asked, *hint.split()])
    assert "error[" not in (said := capsys.readouterr().err) and "JC2121" not in said, said


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("gpu_type=h100", "estimate.prices.H100=2.5"), "estimate.prices.h100=2.5"),
        (("estimate.prices.H100=2",), "estimate.prices.any=2"),
        (("gpu_type=A100-80GB", "estimate.prices.H100=2"), "estimate.prices.A100-80GB=2"),
        (("gpu_type='RTX 6000'", "estimate.prices.H100=2"), "estimate.prices.any=2"),
    ],
)
def test_a_price_that_is_of_no_gpu_of_the_job_is_noted(plan: Plan, words: tuple[str, ...], hint: str) -> None:
    words = ("gpus=8", "backend=slurm", "estimate.step_s=1", *words)
    status, printed, said = plan(*words)
    assert status == 0 and "note[JC2127]" in said and "cost" not in printed
    assert_complete(said)
    assert said.partition("= hint: ")[2].splitlines()[0].split(", ")[0] == hint
    assert plan("--strict", *words, hint)[2] == ""
    assert plan("--strict", *words[:2], *words[3:])[2] == "", "no time, so no cost either"
    assert plan("--strict", "gpus=0", *words[1:])[2] == "", "nothing costs"


@pytest.mark.parametrize(
    ("words", "count", "hint"),
    [
        (("checkpoint.keep=10", "estimate.disk=500GiB"), 12, "checkpoint.keep=4"),
        (
            ("checkpoint.keep_every_steps=1000", "estimate.disk=400GiB"),
            14,
            "checkpoint.keep_every_steps=null",
        ),
        (("estimate.disk=100GiB",), 4, "a larger disk at storage.root: fewer checkpoints are not kept"),
    ],
)
def test_the_checkpoints_of_a_run_fit_the_disk(plan: Plan, words: tuple[str, ...], count: int, hint: str) -> None:
    words = ("estimate.parameters=7e9", "loop.steps=10000", *words)
    (size,) = json.loads(plan(*words, "--format", "json")[1])
    assert size["checkpoints"] == count
    assert hint_of(plan(*words)[2], "JC2126") == hint
    if hint.startswith("checkpoint."):
        assert not plan("--strict", *words, hint)[2]
    assert not plan("--strict", *words, "estimate.disk=2TiB")[2]
    (short,) = figures(plan, *words, "estimate.disk=null", "loop.steps=150")
    assert short["checkpoints"] == 2, "there are no more saves"


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("task=digits", "procs=2000"), "procs=1438"),
        (("task=digits", "procs=2000", "loop.drop_last=true"), "procs=1438 loop.drop_last=false"),
        (("task=digits", "procs=1000", "nodes=2", "backend=slurm"), "nodes=1"),
        (("task=digits", "procs=2000", "nodes=3", "backend=slurm"), "nodes=1 procs=1438"),
        (("task=digits", "batch.micro=4000", "loop.drop_last=true"), "loop.drop_last=false"),
        (
            ("estimate.samples=10", "loop.drop_last=true", "loop.epochs=3", "loop.steps=null", "procs=4"),
            "loop.drop_last=false",
        ),
        (("data=random_tokens", "data.samples=31", "gpus=8", "nodes=4", "backend=slurm"), "nodes=3"),
        (("estimate.samples=7", "gpus=8", "backend=slurm"), "more data, or fewer nodes and ranks"),
        (("task=digits", "procs=2000", "batch.global=64000"), "more data, or fewer nodes and ranks"),
    ],
)  # fmt: skip
def test_too_few_samples_are_said_before_the_trainer_refuses_them(
    plan: Plan, words: tuple[str, ...], hint: str
) -> None:
    assert hint_of(plan(*words)[2], "JC2128") == hint
    if "=" in hint:
        assert not plan("--strict", *words, *words_of(hint))[2]
    assert "JC2128" not in plan(*words, "--", "train.py")[2], "a program of one's own is not asked"


def test_samples_that_are_enough_or_not_known_are_no_finding(plan: Plan) -> None:
    assert not plan("task=digits", "procs=1438", "--strict")[2]
    assert not plan("estimate.samples=64", "loop.drop_last=true", "nodes=4", "backend=slurm", "--strict")[2]
    assert not plan("task=digits", "procs=2000", "recipe=my_pkg.Mine", "--strict")[2], "it may read other data"
    assert "JC2128" in plan("task=digits", "procs=2000", "recipe=my_pkg.Mine", "estimate.samples=1999")[2]


def hint_of(said: str, code: str) -> str:
    """The hint of the only warning, which is this one."""
    assert said.count("warning[") == 1 and f"[{code}]" in said, said
    return said.partition("= hint: ")[2].splitlines()[0]


@pytest.mark.parametrize(
    ("engine", "hint"),
    [
        (("backend=ssh", "hosts=a", "time=20m"), "time=50m"),
        (("backend=local", "time=20m"), "time=50m"),
        (("backend=slurm", "time=5m"), "lifecycle.max_requeues=9"),
    ],
)
def test_only_an_engine_that_starts_a_job_again_has_several_attempts(
    plan: Plan, engine: tuple[str, ...], hint: str
) -> None:
    words = (*engine, "loop.steps=300", "estimate.step_s=10")  # 50 min
    status, _, said = plan(*words)
    assert (status, hint_of(said, "JC2123")) == (0, hint)
    assert main(["check", "--strict", *words, hint]) == 0


def test_failures_and_saves_count_against_the_time_limit(plan: Plan) -> None:
    words = ("loop.steps=300", "estimate.step_s=10", "time=55m", "checkpoint.every_steps=30")
    assert not plan(*words)[2]
    failing = ("estimate.parameters=1e9", "estimate.write_rate=1GiB", "estimate.mtbf=2h", "estimate.restart=10m")
    assert "[JC2123]" in plan(*words, *failing)[2]


def test_goodput_is_that_of_the_interval_which_the_job_has(plan: Plan) -> None:
    words = ("task=gpt2_124m", "gpus=8", "loop.steps=100000", "estimate.step_s=1", "estimate.mtbf=30d")
    words = (*words, "estimate.write_rate=1GiB", "estimate.restart=10m", "lifecycle.grace=2m")
    often, best = figures(plan, *words, "checkpoint.every_steps=1000,2700")
    assert often["goodput"]["interval_s"] == 1000
    assert often["goodput"]["best_interval_s"] == pytest.approx(2684, abs=1)
    (each,) = json.loads(plan(*words, "checkpoint.every_steps=50", "--format", "json")[1])
    assert each["goodput"]["fraction"] == pytest.approx(1 - 1.39 / 51.39, abs=0.001), "each 50 s a save of 1.4 s"
    assert each["wall_s"] == each["total_s"] / each["goodput"]["fraction"]
    assert each["gpu_hours"] == pytest.approx(each["wall_s"] / 3600 * 8)
    assert best["goodput"]["fraction"] == pytest.approx(best["goodput"]["best_fraction"])
    (unknown,) = figures(plan, *words, "estimate.step_s=null")
    assert unknown["goodput"]["fraction"] is None and unknown["goodput"]["best_fraction"] > 0.99
    (never,) = json.loads(plan(*words, "estimate.mtbf=1s", "estimate.restart=10m", "--format", "json")[1])
    assert never["wall_s"] is never["gpu_hours"] is None, "it does not end"
