"""In a sweep, each problem is reported once, with the affected points."""

from __future__ import annotations

import re

import pytest

from jobc.compiler.cli import main
from jobc.compiler.diagnostics.diagnostic import Diagnostic, describe_sweep_points, merge_equal_diagnostics
from jobc.compiler.diagnostics.origin import Origin


@pytest.mark.parametrize(
    ("words", "title", "points"),
    [
        (
            ("backend=ssh", "nodes=2,3,4", "hosts=[a]"),
            "1 host for 2 nodes",
            "nodes=2, with different numbers at nodes=3, nodes=4",
        ),
        (
            ("gpus=2,4", "procs=8", "nodes=1,2"),
            "8 processes on 2 GPUs per node",
            "gpus=2 nodes=1, gpus=2 nodes=2, with different numbers at gpus=4 nodes=1, gpus=4 nodes=2",
        ),
        (
            ("backend=slurm", "nodes=2,3,5,6,7", "batch.global=64"),
            "batch.global=64 cannot be split over 3 ranks",
            "nodes=3, with different numbers at nodes=5, nodes=6, nodes=7",
        ),
        (("gpus=2", "procs=8", "nodes=1,2"), "8 processes on 2 GPUs per node", "nodes=1, nodes=2"),
    ],
)
def test_a_problem_of_several_points_is_told_once(
    words: tuple[str, ...], title: str, points: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", "-m", *words]) == 1
    said = capsys.readouterr().err
    assert re.findall(r"^error\[[^]]+\]: (.*)$", said, re.MULTILINE) == [title]
    assert f"  = points: {points}\n" in said


def told(*found: tuple[str, str]) -> list[tuple[str, str]]:
    """found: title and point -> title and line of points, merged and merged once more."""
    made = [Diagnostic("JC2003", title, points=(point,) if point else ()) for title, point in found]
    once = merge_equal_diagnostics(made)
    assert merge_equal_diagnostics(once) == once
    return [(d.title, describe_sweep_points(d)) for d in once]


def test_the_first_of_several_has_the_word() -> None:
    assert told(("9 ranks", "n=9"), ("1 rank", "n=1")) == [("9 ranks", "n=9, with different numbers at n=1")]
    two = told(("3 of 4", "n=4"), ("3 of 4", "n=5"), ("3 of 6", "n=6"), ("3 of 6", "n=7"))
    assert two == [("3 of 4", "n=4, n=5, with different numbers at n=6, n=7")]
    assert told(("a=2 or 4", "n=1"), ("a=7", "n=2")) == [("a=2 or 4", "n=1, with different numbers at n=2")]


def test_two_problems_of_one_point_stay_two() -> None:
    assert told(("rank 1 dies", "n=2"), ("rank 2 dies", "n=2")) == [("rank 1 dies", "n=2"), ("rank 2 dies", "n=2")]
    four = told(*((f"rank {rank} of {n}", f"n={n}") for n in (5, 6) for rank in (1, 2)))
    assert four == [(f"rank {rank} of 5", "n=5, with different numbers at n=6") for rank in (1, 2)]
    assert told(("1 rank", ""), ("2 ranks", "")) == [("1 rank", ""), ("2 ranks", "")]


def test_what_differs_in_more_than_numbers_is_another_problem() -> None:
    assert len(told(("no file a1.yaml", "n=1"), ("no file a2.yaml", "n=2"))) == 2
    assert len(told(("too many ranks", "n=1"), ("too few ranks", "n=2"))) == 2
    made = [Diagnostic("JC2003", "x", points=("n=1",)), Diagnostic("JC2004", "x", points=("n=2",))]
    made += [Diagnostic("JC2003", "x", points=("n=3",), **more) for more in ({"allowed": "so"}, {"key": "nodes"})]  # type: ignore[arg-type]
    made += [Diagnostic("JC2003", "x", hint="do y", points=("n=4",))]
    made += [Diagnostic("JC2003", "x", origin=Origin("project", "a.yaml", 3, 1), points=("n=5",))]
    assert len(merge_equal_diagnostics(made)) == 6
