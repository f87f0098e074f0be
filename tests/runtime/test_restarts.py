"""Restarts in place (lifecycle.max_restarts): after a crash, and only then, all ranks start again."""

from __future__ import annotations

import os
import signal

import pytest

STATE = """
n=$(cat "$MARKS/starts.$RANK" 2>/dev/null || echo 0)
echo $((n + 1)) >"$MARKS/.$RANK" && mv "$MARKS/.$RANK" "$MARKS/starts.$RANK" # whole, whenever it is killed
"""
KILLED_ONCE = """
if [ $n$RANK = 01 ]; then until [ -e "$MARKS/starts.0" ]; do sleep 0.05; done; kill -9 $$; fi
[ $n = 1 ] || sleep 60
"""


def ranks(job, program: str, **changes):
    """A job whose ranks count their starts in marks, then run bash code in which $n is how many there were before."""
    return job(command=("bash", "-c", STATE + program), **changes)


@pytest.mark.parametrize("launcher", ["spawn", pytest.param("torchrun", marks=[pytest.mark.engine, pytest.mark.slow])])
def test_all_ranks_start_again_when_one_was_killed(job, launcher):
    demo = ranks(job, KILLED_ONCE, launcher=launcher, lifecycle_max_restarts=2)
    code, said = demo.run("submit")
    assert code == 0, said
    assert "rank 1 failed first" in said and "restart 1 of 2" in said
    assert [demo.mark(f"starts.{rank}") for rank in (0, 1)] == ["2\n", "2\n"]


def test_the_last_crash_is_the_end(job):
    demo = ranks(job, "[ $RANK = 0 ] || exit 3; sleep 60", lifecycle_max_restarts=2)
    code, said = demo.run("submit")
    assert code == 1 and "restart 2 of 2" in said and "restart 3" not in said
    assert demo.mark("starts.1") == "3\n"
    assert (demo.only_run / "exit/0/node_00").read_text().startswith("1\n")


@pytest.mark.parametrize("code", [0, 65, 71, 75])
def test_other_ends_are_ends(job, code):
    demo = ranks(job, f"exit {code}", lifecycle_max_restarts=2)
    assert demo.run("submit")[0] == code
    assert {mark.read_text() for mark in demo.marks.glob("starts.*")} == {"1\n"}


def test_a_run_that_was_told_to_end_is_not_restarted(job):
    demo = ranks(job, "trap 'exit 1' TERM; while sleep 0.1; do :; done", lifecycle_max_restarts=2)
    process = demo.start("submit")
    demo.wait_for_marks("starts.0", "starts.1")
    demo.wait_for((demo.only_run / "state/rank_01").exists, "both ranks")
    os.kill(process.pid, signal.SIGTERM)
    said, _ = process.communicate(timeout=60)
    assert "restart" not in said and process.returncode == 1
    assert demo.mark("starts.0") == "1\n"
