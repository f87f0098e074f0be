"""Measure G5 to G8: what a whole job on one GPU costs besides its steps. It runs jobs as users do, and reads their
metrics.

    python bench/gpu/runs.py                                          on a GPU: task=gpt2_124m gpus=1
    python bench/gpu/runs.py --saves 2 --every 10 -- task=gpt_tiny    a quick test on a CPU

Two jobs with the same steps share a folder for compiled kernels, which is empty at first. The first job fills it. The
second one is killed by SIGKILL after a save, and then resumed. Two more jobs run with loop.deterministic; the second of
these is killed and resumed as well.

    G5  seconds from jobctl submit to the end of the first step: at most 120, or 40 with compiled kernels
    G6  share of a step spent waiting for data: at most 1 %
    G7  steps that could have been trained in the time that a background save costs: at most 1
    G8  relative difference between the losses after the resume and those of the job that was not killed: at most 1e-3;
        number of losses that differ at all with loop.deterministic: 0
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / ".dev"), str(ROOT / "bench")]

import torch  # noqa: E402
from goals import Goal, at_most, table  # noqa: E402

from jobc.prove.job import Job, descendants, kill, state_pid  # noqa: E402
from jobc.trainer.loop.metrics import last_step_lines  # noqa: E402

WARM_STEPS = 3  # not measured, because memory is allocated in them


class Steps(NamedTuple):
    """One job. The lists are in step order.

    first_s: seconds from submit to the first step
    times: when each step ended
    """

    first_s: float
    times: list[float]
    step_s: list[float]
    data_s: list[float]
    losses: list[float]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--saves", type=int, default=10, help="at least 10 for figures to be quoted")
    parser.add_argument("--every", type=int, default=20, help="steps between saves")
    parser.add_argument("words", nargs="*", help="jobc overrides after --; default: task=gpt2_124m")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        words = [
            *(given.words or ["task=gpt2_124m"]), f"gpus={int(torch.cuda.is_available())}", "metrics.flush_s=0",
            f"loop.steps={(given.saves + 1) * given.every}", "loop.epochs=null", "validation.every_steps=1000000",
            f"checkpoint.every_steps={given.every}", f"caches.compiled={folder}/kernels-$UID",
        ]  # fmt: skip
        cold = trained(Path(folder, "cold"), words)
        warm = trained(Path(folder, "warm"), words, killed_after=given.every)
        exact = [*words, "loop.deterministic=true"]
        whole = trained(Path(folder, "whole"), exact)
        resumed = trained(Path(folder, "resumed"), exact, killed_after=given.every)
    print(table([*goals(cold, warm, given.every), *equal_bits(whole, resumed)]))
    return 0


def trained(folder: Path, words: Sequence[str], killed_after: int = 0) -> Steps:
    """Run a job from jobctl submit until it ends.

    killed_after: step after which, once it is saved, the job is killed and resumed; 0 to let it run
    """
    with Job(folder, words, procs=1) as job:
        began = time.time()
        job.submit()
        if killed_after:
            job.wait_for_step(killed_after)
            job.wait_for(lambda: any((job.run_folder / "checkpoints").glob("step_*")), "the first save")
            if not kill(descendants(state_pid(job.run_folder, "rank_00"))[0]) or job.code() == 0:
                raise SystemExit("the job ended before it was killed: increase --saves")
            job.resume()
        if job.code():
            raise SystemExit(f"jobctl submit exited with {job.code()}: {job.output()[-1500:]}")
        lines = [line for _, line in sorted(last_step_lines(job.metrics()).items())]
    times, step_s, data_s = ([float(str(line[key])) for line in lines] for key in ("time", "step_s", "data_s"))
    return Steps(times[0] - began, times, step_s, data_s, [float.fromhex(str(line["loss_hex"])) for line in lines])


def goals(cold: Steps, warm: Steps, every: int) -> list[Goal]:
    waits = [data / step for data, step in zip(cold.data_s, cold.step_s, strict=True)][WARM_STEPS:]
    return [
        at_most("G5", "s to the first step, without compiled kernels", [cold.first_s], 120),
        at_most("G5", "s to the first step, with compiled kernels", [warm.first_s], 40),
        at_most("G6", "share of a step spent waiting for data", waits, 0.01),
        at_most("G7", "cost of a background save, in steps", costs_of_saves(cold.times, every), 1),
        at_most("G8", "largest relative difference of losses after a kill", [most_apart(warm, cold)], 1e-3),
    ]


def equal_bits(whole: Steps, resumed: Steps) -> list[Goal]:
    others = sum(mine != its for mine, its in zip(resumed.losses, whole.losses, strict=True))
    return [at_most("G8", "number of different losses, loop.deterministic", [others], 0)]


def most_apart(one: Steps, other: Steps) -> float:
    """Return the largest relative difference between the losses of the same steps."""
    return max(abs(mine - its) / abs(its) for mine, its in zip(one.losses, other.losses, strict=True))


def costs_of_saves(times: Sequence[float], every: int) -> list[float]:
    """Return the cost of each save in steps: the extra time that the steps up to the next save took together.

    The last save is excluded, because no steps follow it.
    """
    took_s = [after - before for before, after in itertools.pairwise(times)]  # [i]: step i + 2
    usual_s = statistics.median(took_s[WARM_STEPS:])
    return [sum(took_s[step - 1 : step - 1 + every]) / usual_s - every for step in range(every, len(times), every)]


if __name__ == "__main__":
    sys.exit(main())
