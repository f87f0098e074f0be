"""When a rank for which no other rank waits has made no progress for too long: a clock set by the test, and the
watchdog.
"""

from __future__ import annotations

import fcntl
import io
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch

from jobc.runtime.exit_codes import DONE, PEER_LOST
from jobc.trainer.dist import hang_watch as watch_module
from jobc.trainer.dist import process_group
from jobc.trainer.dist.env import parse_environment
from jobc.trainer.dist.hang_watch import HangWatchdog, StallClock
from jobc.trainer.dist.phases import Phase, Phases
from jobc.trainer.dist.process_group import join_process_group

from ..conftest import Run

TIMEOUT_S, ALONE = 0.9, 1.4
NAME = "rank 0 on a"


def in_step(phase: Phase) -> Phases:
    phases = Phases()
    phases.begin_step(24)
    phases.enter(phase)
    return phases


def after(phases: Phases, *seconds: float, tick_s: float = 1.0) -> StallClock:
    """Return a clock that has looked at each of these times, in seconds since the phase began."""
    seen = StallClock(phases)
    for second in seconds:
        seen.update(phases.since + second, tick_s)
    return seen


@pytest.mark.parametrize(
    "phase", ["data", "model", "restore", "forward", "exchange", "update", "validation", "metrics"]
)
def test_a_phase_that_gets_no_further_is_over_some_time(phase: Phase) -> None:
    phases = in_step(phase)
    assert not after(phases, *range(1, 11)).is_over(10)
    assert after(phases, *range(1, 12)).is_over(10)


@pytest.mark.parametrize("phase", ["start", "save", "write", "read", "failed"])
def test_with_a_disk_or_a_save_it_has_none(phase: Phase) -> None:
    assert not after(in_step(phase), *range(1, 100)).is_over(10)


def test_time_in_which_the_process_was_stopped_does_not_count() -> None:
    seen = after(in_step("data"), 1, 2, 3600, 3601)
    assert seen.spent_s == 2 + 3 + 1
    assert not seen.is_over(10)


def test_each_sign_that_it_gets_on_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    phases = in_step("data")
    began = phases.since
    seen = after(phases, *range(1, 10))
    monkeypatch.setattr(time, "perf_counter", lambda: began + 9.5)
    phases.record_progress()
    assert phases.since == began, "the phase lasts all the same"
    assert not seen.is_over(5), "not even before the next look"
    seen.update(began + 10, 1.0)
    assert seen.spent_s == 0
    seen.update(began + 11, 1.0)
    assert seen.spent_s == 1


def test_a_phase_is_known_when_the_step_or_part_with_it_is_over() -> None:
    phases = in_step("forward")
    phases.begin_outside_steps("validation")
    phases.enter("validation")
    assert {"data", "forward"} <= phases.known
    assert "validation" not in phases.known, "its first one compiles"
    phases.begin_step(25)
    assert "validation" in phases.known


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Record the codes with which this process would have exited."""
    codes: list[int] = []
    hangs = threading.Event()

    def end(code: int) -> None:
        codes.append(code)
        hangs.wait(10)  # as whatever calls it does not go on

    monkeypatch.setattr(os, "_exit", end)
    monkeypatch.setattr(watch_module, "ALONE", ALONE)
    return codes


def wait_for_end(ended: list[int], longest_s: float = 10) -> None:
    deadline = time.monotonic() + longest_s
    while not ended and time.monotonic() < deadline:
        time.sleep(0.02)


def test_a_rank_alone_that_hangs_says_so_writes_what_is_left_and_ends(
    ended: list[int], capfd: pytest.CaptureFixture[str]
) -> None:
    phases, written = Phases(), []
    phases.begin_step(23)
    watch = HangWatchdog(phases, 0, [NAME], TIMEOUT_S, None)
    watch.at_end = lambda: written.append("metrics")
    with watch:
        phases.begin_step(24)
        began = time.monotonic()
        wait_for_end(ended)
    assert ended == [PEER_LOST]
    assert written == ["metrics"]
    assert time.monotonic() - began > ALONE * TIMEOUT_S
    stacks, _, last = capfd.readouterr().err.partition("error: ")
    assert "in test_a_rank_alone_that_hangs" in stacks[stacks.index("its stacks") :]
    assert re.match(f"{NAME} has made no progress in the data phase of step 24 for [1-9] s\n", last)


def test_a_disk_that_hangs_as_well_does_not_keep_it(ended: list[int]) -> None:
    phases = in_step("data")
    phases.begin_step(25)
    watch = HangWatchdog(phases, 0, [NAME], TIMEOUT_S, None)
    hangs = threading.Event()

    def write() -> None:
        hangs.wait(30)

    watch.at_end = write
    with watch:
        wait_for_end(ended)
        hangs.set()
    assert ended == [PEER_LOST]


HANGS = f"""
import time
from jobc.trainer.dist import hang_watch as watch
from jobc.trainer.dist.phases import Phases
watch.ALONE = {ALONE}
phases = Phases()
phases.begin_step(24)
with watch.HangWatchdog(phases, 0, ["{NAME}"], {TIMEOUT_S}, None):
    time.sleep(60)
"""


def test_a_log_that_hangs_as_well_does_not_keep_it() -> None:
    reading, writing = os.pipe()
    room = fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
    os.write(writing, b"x" * room)
    try:
        rank = subprocess.run([sys.executable, "-c", HANGS], stderr=writing, timeout=40, check=False)
    finally:
        os.close(reading)
        os.close(writing)
    assert rank.returncode == PEER_LOST


def test_a_rank_that_is_slow_and_gets_on_is_left_alone(ended: list[int]) -> None:
    phases = in_step("data")
    phases.begin_step(25)
    with HangWatchdog(phases, 0, [NAME], TIMEOUT_S, None):
        for _ in range(8):  # micro batches
            time.sleep(0.3)
            phases.record_progress()
        phases.begin_outside_steps("validation")
        for _ in range(8):  # its batches
            time.sleep(0.3)
            phases.enter("validation")
    assert ended == []


def test_a_rank_that_hangs_before_its_first_step_has_the_time_of_the_start(
    ended: list[int], capfd: pytest.CaptureFixture[str]
) -> None:
    phases = Phases()
    phases.begin_outside_steps("data")
    with HangWatchdog(phases, 0, [NAME], TIMEOUT_S, None):
        wait_for_end(ended)
    assert ended == [PEER_LOST]
    last = capfd.readouterr().err.partition("error: ")[2]
    assert re.match(f"{NAME} has made no progress in the data phase before the first step for [1-9] s\n", last)
    assert "the limit is 1.4 times process_group.init_timeout_s=0.9" in last


def test_equal_timeouts_are_told_apart_by_what_has_been_done_before(
    ended: list[int], capfd: pytest.CaptureFixture[str]
) -> None:
    phases = in_step("data")
    watch = HangWatchdog(phases, 0, [NAME], TIMEOUT_S, None)
    watch.use_timeout(TIMEOUT_S)
    with watch:
        phases.begin_step(25)
        wait_for_end(ended)
    assert ended == [PEER_LOST]
    assert "process_group.step_timeout_s=0.9" in capfd.readouterr().err


def test_what_is_done_for_the_first_time_has_the_time_of_the_start(ended: list[int]) -> None:
    phases = in_step("data")
    watch = HangWatchdog(phases, 0, [NAME], 4.0, None)
    watch.use_timeout(TIMEOUT_S)
    with watch:
        phases.begin_outside_steps("validation")
        wait_for_end(ended, ALONE * TIMEOUT_S + 1)
        assert ended == []
        phases.begin_step(25)
        phases.begin_outside_steps("validation")
        wait_for_end(ended)
    assert ended == [PEER_LOST]


PIECES = 3


def test_each_piece_of_what_the_ranks_give_each_other_is_a_sign(
    digits: Callable[..., dict[str, Any]], new_run: Callable[[], Run]
) -> None:
    """Weights of hundreds of GB are distributed piece by piece, in one phase."""
    run = new_run()
    run.start(
        digits({"world_size": 2}), ["-m", "jobc.tests.trainer.dist.test_no_progress"], PYTHONPATH=":".join(sys.path)
    )
    assert run.wait() == [DONE] * 2, run.output(0)
    assert json.loads(run.output(1).splitlines()[-1]) == {"tensors": PIECES, "file": PIECES}


def signs_of(phases: Phases, gives: Callable[[], object]) -> int:
    signs: list[None] = []
    phases.record_progress = lambda: signs.append(None)  # type: ignore[method-assign]
    gives()
    return len(signs)


if __name__ == "__main__":
    process_group.BROADCAST_BYTES = 8
    with join_process_group(parse_environment(os.environ), 60) as group:
        signs = {
            "tensors": signs_of(group.phases, lambda: group.copy_from_rank_0([torch.zeros(2 * PIECES)])),
            "file": signs_of(group.phases, lambda: group.broadcast_file(0, io.BytesIO(b"12345678" * PIECES))),
        }
    print(json.dumps(signs), flush=True)
