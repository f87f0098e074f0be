"""`jobc plan`: whether the training, its failures and its saves fit the time limit and the grace (JC2121, JC2123)."""

from __future__ import annotations

import json

import pytest

from jobc.compiler.cli import main

from ..conftest import Plan, figures
from ..hints import hint_of

BUCKET = ("storage.run=object", "storage.root=s3://bucket/runs")


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
    ("engine", "hint"),
    [
        (("backend=ssh", "hosts=a", "time=20m"), "time=50m"),
        (("backend=local", "time=20m"), "time=50m"),
        (("backend=slurm", "time=5m"), "lifecycle.max_requeues=17"),
        (("backend=skypilot", "storage.run=node", "backend.down=false", "time=20m"), "time=50m"),
        (("backend=skypilot", "backend.managed=true", *BUCKET, "time=10m"), "lifecycle.max_requeues=4"),
    ],
)
def test_only_an_engine_that_starts_a_job_again_has_several_attempts(
    plan: Plan, engine: tuple[str, ...], hint: str
) -> None:
    words = (*engine, "loop.steps=300", "estimate.step_s=10")  # 50 min
    status, _, said = plan(*words)
    assert (status, hint_of(said, "JC2123")) == (0, hint)
    assert main(["check", "--strict", *words, hint]) == 0


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (
            ("loop.steps=4700", "time=20m", "lifecycle.grace=15m", "lifecycle.max_requeues=3"),
            "lifecycle.max_requeues=20",
        ),
        (("loop.steps=3600", "time=65m", "lifecycle.grace=10m", "lifecycle.max_requeues=0"), "time=1h12m"),
        (("loop.steps=3600", "time=50m", "lifecycle.max_requeues=0"), "time=1h3m"),
        (("loop.steps=3600", "time=10m", "lifecycle.grace=10m", "lifecycle.max_requeues=3"), "time=1h12m"),
    ],
)
def test_slurm_counts_the_time_to_save_within_the_limit(plan: Plan, words: tuple[str, ...], hint: str) -> None:
    words = ("backend=slurm", "estimate.step_s=1", *words)
    status, _, said = plan(*words)
    assert (status, hint_of(said, "JC2123")) == (0, hint)
    assert "is asked for a checkpoint up to " in said
    assert not plan(*words, hint)[2]
    assert main(["check", "--strict", *words, hint]) == 0


def test_elsewhere_the_time_to_save_comes_on_top_of_the_limit(plan: Plan) -> None:
    words = ("loop.steps=36", "estimate.step_s=100", "time=1h", "lifecycle.grace=10m", "lifecycle.max_requeues=0")
    for engine in ("local", "ssh", "pdsh", "accelerate", "kubernetes", "skypilot"):
        assert "[JC2123 " not in plan(*words, f"backend={engine}")[2], engine


def test_failures_and_saves_count_against_the_time_limit(plan: Plan) -> None:
    words = ("loop.steps=300", "estimate.step_s=10", "time=55m", "checkpoint.every_steps=30")
    assert not plan(*words)[2]
    failing = ("estimate.parameters=1e9", "estimate.write_rate=1GiB", "estimate.mtbf=2h", "estimate.restart=10m")
    assert "[JC2123 " in plan(*words, *failing)[2]


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
