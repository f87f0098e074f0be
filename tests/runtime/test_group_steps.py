"""The commands of other groups in a heterogeneous Slurm job, with stand-ins for srun."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from jobc.backends.slurm.engine.group_steps import GroupSteps, split_steps
from jobc.tests.testbed import wait_for


@pytest.mark.parametrize(("command", "failure"), [("exit 3", "group 2 exited with 3"), ("kill -9 $$", "with -9")])
def test_a_command_that_fails_is_named_with_its_log(tmp_path: Path, command: str, failure: str) -> None:
    (tmp_path / "logs").mkdir()
    steps = GroupSteps()
    steps.start([["sleep", "300"], ["bash", "-c", f"echo broken; {command}"]], os.environ, tmp_path)
    wait_for(steps.check_for_failure, "the failure", 10)
    assert failure in steps.failure and (tmp_path / "logs/group_2.log").read_text() == "broken\n"
    steps.end()


@pytest.mark.parametrize("command", ["exit 0", "exit 143", "kill -TERM $$", "sleep 300"])
def test_a_command_that_is_ended_has_not_failed(tmp_path: Path, command: str) -> None:
    """Slurm ends all steps of a job with SIGTERM: the ranks save, and the job is requeued or can be resumed."""
    (tmp_path / "logs").mkdir()
    steps = GroupSteps()
    steps.start([["bash", "-c", command]], os.environ, tmp_path)
    steps.end()
    assert steps.failure == ""


def test_only_a_colon_before_srun_separates_steps() -> None:
    words = ["srun", "bash", "launch.sh", ":", "srun", "bash", "launch.sh", "0", "shell", ":", "x"]
    assert split_steps(words) == [words[:3], words[4:]]
