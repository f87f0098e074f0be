"""Prove that a run is never trained twice at once, however many processes start it."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .campaign import Campaign, expect
from .job import STAND_IN, Job

MOST_APART_S = 0.3
WAIT_S = 60


def run(number: int, folder: Path) -> dict[str, Any]:
    chance = random.Random(number)
    with Job(folder, ["launcher=spawn"], ["python3", str(STAND_IN), "save"]) as job:
        job.submit()
        job.wait_for_marks("up.0", "up.1")
        beside = job.resume().wait(WAIT_S)
        expect(beside == 1, f"a resume of a live run exited with {beside}: {job.output()[-500:]}")
        expect("is live" in job.output(), f"it said: {job.output()[-500:]}")
        job.started[0].send_signal(signal.SIGTERM)
        expect(job.started[0].wait(WAIT_S) == 75, "the live run was disturbed")
        for mark in job.marks.glob("*"):
            mark.unlink()

        apart_s = chance.choice((0, chance.uniform(0, MOST_APART_S)))
        two = [job.resume()]
        time.sleep(apart_s)
        two.append(job.resume())
        wait_until(lambda: any(process.poll() is not None for process in two))
        refused = [process for process in two if process.poll() is not None]
        measured = {"apart_ms": round(1000 * apart_s), "codes": [process.poll() for process in two]}
        expect(len(refused) == 1 and refused[0].poll() == 1, "not exactly one was rejected", **measured)
        (live_process,) = (process for process in two if process is not refused[0])
        wait_until(lambda: len(list(job.marks.glob("up.*"))) == 2 or live_process.poll() is not None)
        live_process.send_signal(signal.SIGTERM)
        code = live_process.wait(WAIT_S)
        saved = sorted(path.name for path in job.marks.glob("saved.*"))
        expect(code == 75 and saved == ["saved.0", "saved.1"], f"the other exited with {code}: {saved}", **measured)
    return measured


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for a condition for up to a minute."""
    deadline = time.monotonic() + WAIT_S
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)


CAMPAIGN = Campaign(
    name="same_run",
    claim=("A second launch of a live run is rejected; of two simultaneous launches, exactly one starts."),
    trial=(
        "starts 2 ranks of a program without torch, then `submit --resume` of the same run, which must be rejected"
        " and disturb nothing. When the run has ended, two `submit --resume` commands start at once or up to"
        f" {1000 * MOST_APART_S:.0f} ms apart: one must be rejected, and the ranks of the other must start and save."
    ),
    count=20,
    run=run,
)
