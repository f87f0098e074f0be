"""Measure T8 and T9: how soon a job trains again after a rank was killed, and how soon a dead or frozen rank is
detected.

    python bench/trainer/recovery.py [--trials 30]

A trial is a job with two ranks on this machine and lifecycle.max_restarts=1. Once it trains, one rank receives SIGKILL,
and the ranks are restarted in place. T8 is the time from the kill to the first step after it, minus the time from
submit to the first step of the same job. The number of repeated steps is reported with it. T9 is the time until the
other rank has exited with a message that names the killed rank. With SIGSTOP, only the time beyond
process_group.step_timeout_s counts. Times are wall times, so other load on the machine counts. Goals for the upper
bounds: T8 2 s, T9 5 s.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / ".dev"), str(ROOT / "bench")]

from goals import at_most, table  # noqa: E402

from jobc.prove import frozen_rank  # noqa: E402
from jobc.prove.campaign import Failed  # noqa: E402
from jobc.prove.job import MICRO, Job, descendants, is_running, kill, state_pid  # noqa: E402
from jobc.trainer.loop.metrics import read_metrics  # noqa: E402

EVERY = 10  # steps between saves
OVERRIDES = [
    *MICRO, "launcher=spawn", "lifecycle.max_restarts=1", "loop.steps=100000", "validation.every_steps=100000",
    f"checkpoint.every_steps={EVERY}", "lifecycle.grace=5s",
]  # fmt: skip
MORE_STEPS = 5  # steps of the second start before the job is stopped


class Recovery(NamedTuple):
    """One trial.

    beyond_s: T8
    redone: number of repeated steps
    ended_s: T9
    """

    beyond_s: float
    redone: int
    ended_s: float


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=30, help="at least 30 for figures to be quoted")
    trials = parser.parse_args().trials
    with tempfile.TemporaryDirectory() as folder:
        killed = [kill_one(number, Path(folder, f"killed_{number}")) for number in range(trials)]
        frozen = [freeze_one(number, Path(folder, f"frozen_{number}")) for number in range(trials)]
    goals = [
        at_most("T8", "s from kill to next step, beyond a cold start", [each.beyond_s for each in killed], 2.0),
        at_most("T8", f"steps done again, saved every {EVERY}", [each.redone for each in killed], EVERY),
        at_most("T9", "s from SIGKILL of a rank to the end of the other", [each.ended_s for each in killed], 5.0),
        at_most("T9", "s beyond the timeout, rank frozen by SIGSTOP", frozen, 5.0),
    ]
    print(table(goals))
    return 0


def kill_one(number: int, folder: Path) -> Recovery:
    chance = random.Random(number)
    with Job(folder, OVERRIDES) as job:
        began = time.time()
        job.submit()
        job.wait_for_step(chance.randint(1, 3 * EVERY))
        victim = chance.choice((0, 1))
        ranks = [descendants(state_pid(job.run_folder, f"rank_{rank:02}"))[0] for rank in (0, 1)]
        killed_at = time.time()
        kill(ranks[victim])
        while is_running(ranks[1 - victim]):
            time.sleep(0.005)
        ended_at, done = time.time(), len(job.steps())
        job.wait_for(lambda: len(job.steps()) >= done + MORE_STEPS, "the steps after the restart")
        (job.run_folder / "control" / "STOP").touch()
        code, said = job.code(), job.output()
        lines = [line for line in read_metrics(job.metrics()) if "loss" in line]
    if code or f"rank {victim} failed first" not in said or "restart 1 of 1" not in said:
        raise SystemExit(f"jobctl submit exited with {code}, rank {victim} was killed: {said[-1500:]}")
    times, steps = ([float(str(line[key])) for line in lines] for key in ("time", "step"))
    again = next(index for index, moment in enumerate(times) if moment > ended_at)
    cold_s, again_s = times[0] - began, times[again] - killed_at
    return Recovery(again_s - cold_s, round(steps[again - 1] - steps[again] + 1), ended_at - killed_at)


def freeze_one(number: int, folder: Path) -> float:
    """Return the seconds beyond the timeout. The campaign frozen_rank checks the message and the stacks."""
    try:
        measured = frozen_rank.run(number * len(frozen_rank.WORLDS), folder)  # a trial with two ranks
    except Failed as failure:
        print(f"not as claimed: {failure}", file=sys.stderr)
        measured = failure.measured
    return float(measured["ended_s"]) - frozen_rank.TIMEOUT_S


if __name__ == "__main__":
    sys.exit(main())
