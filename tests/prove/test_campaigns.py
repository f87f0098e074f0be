"""A short version of each campaign. `why` runs completely in tests/compiler/cli/test_why.py; `frozen_rank` is part of
bench/trainer/recovery.py: tests/trainer/test_bench_trainer.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from jobc.prove import (
    compile_cost,
    double_sigterm,
    exit_codes,
    hostile,
    kill_and_resume,
    learns,
    other_ranks,
    random_specs,
    same_seed,
    text,
)


@pytest.mark.engine
@pytest.mark.parametrize("trial", [0, 1])
def test_double_sigterm(trial: int, tmp_path: Path) -> None:
    """Test double_sigterm without the trainer; saved_step in test_on_hosts.py has the trainer."""
    assert double_sigterm.run(trial, tmp_path / "trial")["code"] == 75


@pytest.mark.slow
def test_kill_and_resume(tmp_path: Path) -> None:
    assert kill_and_resume.run(kill_and_resume.ANY, tmp_path / "trial")["kills"]


@pytest.mark.slow
def test_other_ranks(tmp_path: Path) -> None:
    (tmp_path / "trial").mkdir()
    assert other_ranks.run(0, tmp_path / "trial", worlds=(1, 2))["samples"] == 1280


@pytest.mark.slow
@pytest.mark.engine
def test_same_seed(tmp_path: Path) -> None:
    assert same_seed.run(1, tmp_path / "trial", launchers=("spawn", "torchrun"), procs=1)["sha256"]


@pytest.mark.engine
def test_exit_codes(tmp_path: Path) -> None:
    exit_codes.run(2, tmp_path / "trial")


def test_text(tmp_path: Path) -> None:
    assert text.run(10**6, tmp_path / "trial")["arrived"] == text.BATCH


def test_random_specs(tmp_path: Path) -> None:
    assert random_specs.run(1, tmp_path / "trial")["hints"]


@pytest.mark.slow
def test_learns(tmp_path: Path) -> None:
    measured = learns.train(tmp_path / "trial", "loop.steps=30", "validation.max_samples=64", "launcher=spawn")
    assert measured["held_out"]["30"] < measured["untrained"] - 1


@pytest.mark.slow
def test_compile_cost(tmp_path: Path) -> None:
    measured = compile_cost.measure(pairs=1)
    assert 0.5 < measured["ratio_median"] < 2
    assert measured["jobc_cpu_ms_min"] > 0


@pytest.mark.slow
def test_hostile(tmp_path: Path) -> None:
    """Run trials with a seed that the full campaign does not draw, all with the job that the first one trains."""
    kinds = ("run", "spec")
    measured = [hostile.run(10**6 + hostile.KINDS.index(kind), tmp_path / "trial") for kind in kinds]
    assert tuple(each["kind"] for each in measured) == kinds
