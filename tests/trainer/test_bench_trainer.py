"""bench/trainer with a tiny model: each command prints goals with figure, bound and limit, and whether they hold."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jobc.tests.trainer.conftest import clean_environment

BENCH = Path(__file__).parents[2] / "bench" / "trainer"
TINY = (
    "model.layers=1", "model.width=16", "model.heads=1", "model.context=8", "batch.micro=1", "data.max_bytes=200000",
)  # fmt: skip
ROW = re.compile(
    r"\| (T\d) \| .* \| \d+ \| -?[\d.]+ \(-?[\d.]+ to -?[\d.]+\) \| -?[\d.]+ \| [≤≥] [\d.]+ \| (not )?held \|"
)


def goals_of(*words: str) -> list[str]:
    """The names of the goals in the table that a command prints."""
    done = subprocess.run(
        [sys.executable, *words], cwd=BENCH, env=clean_environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 and "not as claimed" not in done.stderr, done.stderr  # prove/frozen_rank.py
    return [row[1] for row in map(ROW.fullmatch, done.stdout.splitlines()) if row]


@pytest.fixture
def goals() -> Any:
    spec = importlib.util.spec_from_file_location("goals", BENCH.parent / "goals.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_bound_that_counts_against_a_goal_decides(goals: Any) -> None:
    values = [0.9, 1.0, 1.1]
    assert goals.at_most("T1", "", values, 1.1).holds and not goals.at_most("T1", "", values, 1.05).holds
    assert goals.at_least("T2", "", values, 0.9).holds and not goals.at_least("T2", "", values, 0.95).holds
    assert goals.not_below("T2", "", values, 1.1).holds and not goals.not_below("T2", "", values, 1.15).holds
    assert "| 3 | 1.000 (0.900 to 1.100) | 1.100 | ≤ 1.05 | not held |" in goals.table(
        [goals.at_most("T1", "", values, 1.05)]
    )


@pytest.mark.slow
def test_ways_to_train_are_compared() -> None:
    ways = "bare,one_rank,apart,jobc,accelerate"
    found = goals_of("compare.py", "--ways", ways, "--rounds", "2", "--steps", "1", "--", *TINY)
    assert found == ["T1", "T1", "T2", "T2", "T2", "T3", "T3"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "names"), [("imports.py --pairs 1", ["T5"]), ("recovery.py --trials 1", ["T8", "T8", "T9", "T9"])]
)
def test_what_is_not_a_step_is_measured(command: str, names: list[str]) -> None:
    assert goals_of(*command.split()) == names
