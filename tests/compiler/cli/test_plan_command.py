"""`jobc plan`: the figures for several sizes, and the limits that they are checked against."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

from jobc.compiler.cli import main

from ..conftest import Plan, figures
from ..diagnosed import assert_complete
from ..hints import hint_of, words_of

QWEN = ("+experiment=qwen_image", "backend=ssh", "nodes=1,2,8")


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


def test_a_run_beside_the_time_of_a_step_is_said_to_have_no_part_in_it(plan: Plan) -> None:
    words = ("estimate.run=nowhere", "estimate.step_s=3,4")
    status, printed, said = plan(*words)
    assert status == 0 and said.count("note[JC2132 estimate-run-ignored]: estimate.run=nowhere is ignored") == 1
    assert hint_of(said.replace("note[", "warning["), "JC2132").startswith("estimate.run=null")
    assert plan("estimate.step_s=3,4") == (0, printed, "")
    assert plan(*words, "--strict")[0] == 1


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
    assert status == 1 and "the run's metrics contain no steps" in said


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


def test_csv_has_a_line_for_each_size(plan: Plan) -> None:
    status, printed, _ = plan(*QWEN, "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(printed)))
    assert status == 0
    assert [row["schedule.steps_of_epoch"] for row in rows] == ["4028", "2014", "504"]
    assert all(int(row["memory.total"]) > 0 for row in rows)


def test_csv_has_the_same_columns_whatever_is_known(plan: Plan) -> None:
    known = (*QWEN, "estimate.step_s=1", "estimate.write_rate=1GB", "estimate.restart=5m")
    headings = [
        plan("--format", "csv", *words)[1].splitlines()[0].split(",")
        for words in ((*known, "estimate.mtbf=1000h,null"), known, ("estimate.mtbf=null",), ("--", "train.py"))
    ]
    assert all(each == headings[0] for each in headings)
    assert {"goodput", "memory", "schedule"}.isdisjoint(headings[0])
    assert {"goodput.fraction", "memory.weights", "memory.total", "memory.error"} < set(headings[0])
    status, printed, _ = plan(*known, "estimate.mtbf=1000h,null", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(printed)))
    assert (status, [bool(row["goodput.mtbf_s"]) for row in rows]) == (0, [True, False] * 3)


def test_sizes_of_one_label_are_told_apart(plan: Plan) -> None:
    long = "a" * 60
    sizes = figures(plan, f"env.A={long}1,{long}2,{long}3", "procs=2")
    label = f"env.A={long}"[:60]
    assert [size["label"] for size in sizes] == [label, f"{label}~2", f"{label}~3"]
    assert [size["label"] for size in figures(plan, "nodes=2,2", "backend=slurm")] == ["job", "job~2"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("estimate.run=nowhere",), "cannot read the step time from nowhere"),
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


def test_hosts_that_a_comma_makes_points_of_are_told_how_to_stay_together(
    plan: Plan, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("backend=ssh", "nodes=2")
    status, _, said = plan(*words, "hosts=a,b")
    assert status == 1 and "1 host for 2 nodes" in said
    assert said.count("= hint: 'hosts=[a,b]', because commas without brackets make each host a separate point\n") == 1
    assert main(["check", "-m", *words, "hosts=a,b"]) == 1
    assert "= hint: 'hosts=[a,b]', " in capsys.readouterr().err
    for command in (["plan"], ["check"], ["check", "-m"]):
        assert main([*command, *words, "hosts=[a,b]"]) == 0, command
    assert "= hint: nodes=1, or list more hosts" in plan(*words, "hosts=[a]")[2]


@pytest.mark.parametrize("command", [["plan"], ["check"], ["check", "-m"]], ids=" ".join)
def test_the_hosts_that_a_hint_offers_are_read_alike_by_every_command(
    command: list[str], plan: Plan, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", "backend=ssh", "nodes=2"]) == 1
    hint = capsys.readouterr().err.partition("= hint: ")[2].splitlines()[0]
    (word,) = re.findall(r"'(hosts=[^']+)'", hint)
    assert main([*command, "backend=ssh", "nodes=2", word]) == 0


def test_a_warning_of_several_sizes_is_told_once_with_its_points(
    plan: Plan, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("nodes=1,2,4", "gpus=8", "task=gpt2_124m", "estimate.gpu_mem=16GiB", "loop.steps=100", "time=5m")
    words = (*words, "batch.accumulation=null", "batch.global=4096", "estimate.step_s=16", "backend=slurm")
    main(["check", "-m", *words, "--format", "json"])
    found = {d["code"]: d for d in json.loads(capsys.readouterr().out)["diagnostics"] if d["severity"] == "warning"}
    assert found["JC2120"]["points"] == ["nodes=1", "nodes=2", "nodes=4"]
    assert found["JC2123"]["points"] == ["nodes=1", "nodes=2"], "1600 and 800 s are more than four attempts of 170 s"
    assert found["JC2123"]["because"].startswith("with nodes=1, the worst of these points, training takes about 26m40s")
    assert not any("nodes=" in d["title"] for d in found.values())


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
    assert status == 0 and "note[JC2127 " in said and "\n  cost " not in printed
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
        (
            ("estimate.disk=100GiB",),
            4,
            "a larger disk at storage.root, because the job already keeps as few checkpoints as possible",
        ),
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
