"""A short version of each campaign. That of `why` is the whole of it: tests/compiler/cli/test_why.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobc.prove import (
    compile_cost,
    double_sigterm,
    exit_codes,
    frozen_rank,
    hostile,
    kill_and_resume,
    learns,
    other_ranks,
    random_specs,
    same_seed,
    text,
)


def test_double_sigterm(tmp_path: Path) -> None:
    assert double_sigterm.run(0, tmp_path / "trial")["code"] == 75


@pytest.mark.slow
@pytest.mark.engine
def test_double_sigterm_with_the_trainer(tmp_path: Path) -> None:
    assert len(double_sigterm.run(2, tmp_path / "trial")["saved_steps"]) == 1


@pytest.mark.slow
def test_kill_and_resume(tmp_path: Path) -> None:
    assert kill_and_resume.run(kill_and_resume.ANY, tmp_path / "trial")["kills"]


@pytest.mark.slow
def test_frozen_rank(tmp_path: Path) -> None:
    assert frozen_rank.run(1, tmp_path / "trial")["named_by"] == 3


@pytest.mark.slow
def test_other_ranks(tmp_path: Path) -> None:
    (tmp_path / "trial").mkdir()
    assert other_ranks.run(0, tmp_path / "trial", worlds=(2, 1))["samples"] == 1280


@pytest.mark.slow
@pytest.mark.engine
def test_same_seed(tmp_path: Path) -> None:
    assert same_seed.run(1, tmp_path / "trial", launchers=("spawn", "torchrun"))["sha256"]


@pytest.mark.engine
def test_exit_codes(tmp_path: Path) -> None:
    exit_codes.run(2, tmp_path / "trial")


def test_text(tmp_path: Path) -> None:
    assert text.run(10**6, tmp_path / "trial")["arrived"] == text.BATCH


def test_random_specs(tmp_path: Path) -> None:
    assert random_specs.run(1, tmp_path / "trial")["hints"]


@pytest.mark.slow
def test_learns(tmp_path: Path) -> None:
    measured = learns.train(tmp_path / "trial", "loop.steps=30", "validation.max_samples=64")
    assert measured["held_out"]["30"] < measured["untrained"] - 1


@pytest.mark.slow
def test_compile_cost(tmp_path: Path) -> None:
    measured = compile_cost.measure(pairs=1)
    assert 0.5 < measured["ratio_median"] < 2
    assert measured["jobc_cpu_ms_min"] > 0


@pytest.mark.slow
def test_hostile(tmp_path: Path) -> None:
    """Trials of a seed that the full campaign does not draw, all with the job that the first one trains."""
    kinds = ("run", "spec")
    measured = [hostile.run(10**6 + hostile.KINDS.index(kind), tmp_path / "trial") for kind in kinds]
    assert tuple(each["kind"] for each in measured) == kinds
