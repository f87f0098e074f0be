"""A run resumes with a different world size: the same samples in the same steps, and equal losses except for
rounding.
"""

from __future__ import annotations

import random
import signal
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .campaign import Campaign, Line, expect, k_of_n
from .job import MICRO, Job

WORLDS = (2, 4, 1)
STEPS, BATCH, MICRO_BATCH = 40, 32, 4
MOST_OFF = 1e-4  # relative difference, because sums are computed in a different order
OVERRIDES = [
    *(word for word in MICRO if not word.startswith(("batch.", "model.dropout"))), f"batch.micro={MICRO_BATCH}",
    f"batch.global={BATCH}", "launcher=spawn", f"loop.steps={STEPS}", "checkpoint.every_steps=1000",
    "validation.every_steps=1000", "recipe=noting.Noting",
]  # fmt: skip


def run(number: int, folder: Path, worlds: Sequence[int] = WORLDS) -> dict[str, Any]:
    """Run a trial whose job is stopped at random steps. Checkpoints are saved only by these stops."""
    chance = random.Random(number)
    stops = chance.randint(3, STEPS // 2 - 3), chance.randint(STEPS // 2 + 3, STEPS - 6)
    with start(folder / "whole", number, worlds[0]) as undisturbed:
        undisturbed.trained()
    with start(folder / "changed", number, worlds[0]) as job:
        job.submit()
        for stop, world_size in zip(stops[: len(worlds) - 1], worlds[1:], strict=True):
            job.wait_for_step(stop)
            job.started[-1].send_signal(signal.SIGTERM)
            expect(job.code() == 75, f"after the stop signal it exited with {job.code()}: {job.output()[-500:]}")
            job.procs = world_size
            job.compile()
            job.resume()
        expect(job.code() == 0, f"the last attempt exited with {job.code()}: {job.output()[-500:]}")
        proof = next(
            (line for line in reversed(job.output().splitlines()) if "data: " in line and "overlap" in line), ""
        )
    ends = [max(job.steps(attempt)) for attempt in range(len(worlds))]
    losses, expected = (float_losses(training) for training in (job, undisturbed))
    off = max(abs(a - b) / abs(b) for a, b in zip(losses, expected, strict=True))
    measured = {"stopped_after": ends[:-1], "off": off, "proof": proof[proof.find("data: ") :]}
    expect(ends[-1] == STEPS and len(losses) == STEPS, f"it ended at step {ends[-1]}", **measured)
    mine = [batch for attempt, world_size in enumerate(worlds) for batch in fed(job, attempt, world_size)]
    samples = fed(undisturbed, 0, worlds[0])
    measured["samples"] = sum(map(Counter.total, samples))
    expect(mine == samples, "the steps did not read the samples of the undisturbed run", **measured)
    expect(max(sum(samples, Counter()).values()) == 1, "a sample was read twice", **measured)
    expect("overlap 0, missing 0" in proof, f"the trainer's own proof: {proof}", **measured)
    expect(off <= MOST_OFF, f"losses differ by {off:.1e}", **measured)
    return measured


def start(folder: Path, seed: int, procs: int) -> Job:
    """Create a job's project, with the recording recipe."""
    folder.mkdir()
    (folder / "noting.py").write_text(Path(__file__).with_name("noting.py").read_text())
    return Job(folder, [*OVERRIDES, f"seed={seed}", f"env.NOTES={folder / 'notes'}"], procs=procs)


def float_losses(job: Job) -> list[float]:
    return [float.fromhex(text) for text in job.result()["losses"][0]]


def fed(job: Job, attempt: int, world_size: int) -> list[Counter[int]]:
    """Return, for each step of an attempt, the samples that all ranks read. A rank's first batch is its warm-up."""
    per_step = BATCH // world_size // MICRO_BATCH
    ranks = []
    for rank in range(world_size):
        lines = (job.folder / "notes" / f"{attempt}.{rank}").read_text().splitlines()[1:]
        batches = [Counter(map(int, line.split())) for line in lines]
        ranks.append([sum(batches[index : index + per_step], Counter()) for index in range(0, len(batches), per_step)])
    return [sum(of_step, Counter()) for of_step in zip(*ranks, strict=True)]


def figure(lines: Sequence[Line]) -> str:
    return f"{k_of_n(lines)}; losses differ by at most {max(line.get('off', 0) for line in lines):.0e}"


CAMPAIGN = Campaign(
    name="other_ranks",
    claim=("A run that resumes with a different world size trains on the same samples in the same steps."),
    trial=(
        f"trains a small GPT for {STEPS} steps on 2 ranks, then 4, then 1: SIGTERM, `jobc procs=…` and `jobctl"
        " submit --resume`, twice, after random steps. A recipe records which samples each rank reads. In every"
        " step, they must be, as a multiset, those of an undisturbed run on 2 ranks, and none may occur twice. The"
        f" trainer's own proof must confirm this for all steps, and no loss may differ by more than {MOST_OFF:.0e}"
        " (relative)."
    ),
    count=10,
    run=run,
    figure=figure,
)
