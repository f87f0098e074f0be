"""The profile of a training run: when it is written, and when a warning says that it is not."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch

from jobc.trainer.config.schema import ProfileConfig
from jobc.trainer.lifecycle.errors import LossDiverged
from jobc.trainer.loop.profiling import StepProfiler

from ..in_process import train

pytestmark = [pytest.mark.xdist_group("training"), pytest.mark.usefixtures("settings_of_torch")]
Tree = Callable[..., dict[str, Any]]


@pytest.mark.parametrize(
    ("how", "changes", "last"),
    [
        ("done", {"loop.steps": 3}, 3),
        ("stopped", {}, 1),
        ("diverged", {"optim.lr": 1e38, "optim.clip_norm": None, "optim.warmup_steps": 0}, 2),
    ],
)
def test_a_profile_that_is_open_is_written_whatever_ends_the_steps(
    how: str, changes: dict[str, Any], last: int, digits: Tree, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "control").mkdir()
    if how == "stopped":
        (tmp_path / "control" / "STOP").touch()
    with pytest.raises(LossDiverged) if how == "diverged" else nullcontext():
        train(tmp_path, digits({"profile.steps": [1, 100], **changes}))
    assert [path.name for path in (tmp_path / "profile").iterdir()] == [f"rank_00_steps_1-{last}.json.gz"]
    assert f"profile of steps 1 to {last}: profile/rank_00" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("theirs", "why"),
    [
        (range(1, 4), "another profiler is running in this process"),
        (range(2, 3), "another profiler in this process stopped this one"),
    ],
)
def test_a_profiler_of_the_recipes_own_costs_the_profile_alone(theirs: range, why: str, tmp_path: Path) -> None:
    profiling, told = StepProfiler(ProfileConfig(steps=(1, 3), ranks=(0,)), 0, tmp_path), []
    own = torch.profiler.profile()
    for step in range(1, 4):
        if step == theirs.start == 1:
            own.start()
        told.append(profiling.before_step(step))
        if step == theirs.start > 1:
            own.start()
        torch.ones(2) + 1
        if step == theirs[-1]:
            own.stop()
        told.append(profiling.after_step(step))
    assert [line for line in [*told, profiling.write_profile()] if line] == [f"warning: no profile: {why}"]
    assert any(event.key == "aten::add" for event in own.key_averages())  # theirs is whole


def test_a_profile_that_begins_behind_the_last_step_is_warned_of(
    digits: Tree, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train(tmp_path, digits({"loop.steps": 3, "profile.steps": [4, 5]}))
    assert "warning: no profile: profile.steps starts at 4, but the last step is 3" in capsys.readouterr().out
    assert not (tmp_path / "profile").exists()


def test_a_profile_of_no_rank_is_warned_of(digits: Tree, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train(tmp_path, digits({"loop.steps": 3, "profile.steps": [1, 2], "profile.ranks": []}))
    assert "warning: no profile: profile.ranks is empty" in capsys.readouterr().out


def test_a_profile_of_steps_that_were_done_before_this_attempt_is_warned_of(
    digits: Tree, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train(tmp_path, digits({"loop.steps": 2}))
    capsys.readouterr()
    train(tmp_path, digits({"loop.steps": 4, "profile.steps": [1, 2]}))
    assert "warning: no profile: profile.steps ends at 2, but this attempt starts at step 3" in capsys.readouterr().out
    train(tmp_path, digits({"loop.steps": 6, "profile.steps": [5, 5]}))
    train(tmp_path, digits({"loop.steps": 7, "profile.steps": [5, 5]}))
    assert "no profile" not in capsys.readouterr().out  # an earlier attempt wrote it
