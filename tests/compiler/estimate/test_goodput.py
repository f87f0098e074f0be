"""Daly's formulas for the best interval and goodput, compared with a simulation, and the interval that `jobc plan`
suggests.
"""

from __future__ import annotations

import math
import random

import pytest

from jobc.compiler.estimate.goodput import best_interval_s, goodput_fraction

from ..conftest import Plan

WORDS = (
    "task=gpt2_124m", "gpus=8", "backend=slurm", "estimate.step_s=1", "estimate.mtbf=2d", "lifecycle.grace=2m",
    "estimate.write_rate=1GiB", "estimate.restart=10m",
)  # fmt: skip  # saving every 692 steps is best


def simulated(interval_s: float, mtbf_s: float, save_s: float, restart_s: float, wanted_s: float) -> float:
    """The share of the time that trains, of a run with exponential failures; a restart may fail as well."""
    chance, now, done = random.Random(7), 0.0, 0.0
    next_failure = chance.expovariate(1 / mtbf_s)

    def passes(seconds: float) -> bool:
        nonlocal now, next_failure
        if now + seconds < next_failure:
            now += seconds
            return True
        now = next_failure
        next_failure = now + chance.expovariate(1 / mtbf_s)
        while now + restart_s >= next_failure:
            now = next_failure
            next_failure = now + chance.expovariate(1 / mtbf_s)
        now += restart_s
        return False

    while done < wanted_s:
        if passes(interval_s + save_s):
            done += interval_s
    return done / now


@pytest.mark.parametrize("mtbf_s", [3600.0, 6 * 3600.0, 3 * 86400.0])
def test_the_share_of_training_is_that_of_a_simulation(mtbf_s: float) -> None:
    save_s, restart_s = 30.0, 300.0
    interval_s = best_interval_s(mtbf_s, save_s)
    found = simulated(interval_s, mtbf_s, save_s, restart_s, wanted_s=3000 * mtbf_s)
    assert goodput_fraction(interval_s, mtbf_s, save_s, restart_s) == pytest.approx(found, abs=0.01)


@pytest.mark.parametrize("mtbf_s", [3600.0, 86400.0])
def test_no_other_interval_trains_more(mtbf_s: float) -> None:
    best = best_interval_s(mtbf_s, 30.0)
    most = goodput_fraction(best, mtbf_s, 30.0, 300.0)
    assert all(
        goodput_fraction(best * by, mtbf_s, 30.0, 300.0) <= most + 1e-4 for by in (0.25, 0.5, 0.9, 1.1, 2.0, 4.0)
    )


def test_the_limits_of_the_formulas() -> None:
    assert best_interval_s(100.0, 300.0) == 100.0  # saving takes longer than the job lives
    assert goodput_fraction(1e9, 1.0, 1.0, 1.0) == 0.0
    assert math.isclose(best_interval_s(1e12, 30.0), math.sqrt(2 * 30 * 1e12), rel_tol=1e-3)


def test_the_interval_that_is_hinted_ends_with_the_training(plan: Plan) -> None:
    often = (*WORDS, "checkpoint.every_steps=10")
    assert "[JC2122 " in (said := plan(*often, "loop.steps=10000")[2]) and "hint: checkpoint.every_steps=692\n" in said
    assert "[JC2122 " in (said := plan(*often, "loop.steps=100")[2]) and "hint: checkpoint.every_steps=100\n" in said
    assert not plan("--strict", *often, "loop.steps=20")[2], "20 is at most three times 10"
    assert not plan("--strict", *WORDS, "checkpoint.every_steps=5000", "loop.steps=700")[2], "saved once, at the end"


@pytest.mark.parametrize(
    ("of_epoch", "every", "hint"),
    [
        ((f"estimate.samples={100 * 4096}",), 30, "checkpoint.every_epochs=7"),
        ((f"estimate.samples={100 * 4096}",), 7, ""),
        ((f"estimate.samples={10 * 4096}",), 1, "checkpoint.every_epochs=69"),
        ((f"estimate.samples={3000 * 4096}",), 1, "checkpoint.every_steps=692 checkpoint.every_epochs=null"),
        (("data=stdlib_bytes",), 1, ""),
    ],
    ids=["too rare", "near", "too often", "an epoch is too long", "steps per epoch unknown"],
)
def test_an_interval_in_epochs_is_compared_in_steps(
    plan: Plan, of_epoch: tuple[str, ...], every: int, hint: str
) -> None:
    words = (*WORDS, "loop.steps=10000", "checkpoint.every_steps=null", f"checkpoint.every_epochs={every}", *of_epoch)
    said = plan(*words)[2]
    assert f"hint: {hint}\n" in said if hint else "JC2122" not in said
    assert not plan("--strict", *words, *hint.split())[2], "the hint pasted"
