"""Train the same spec twice, and through both launchers, with bit-identical results."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .campaign import Campaign, expect
from .job import MICRO, Job

STEPS = 40
LAUNCHERS = ("spawn", "spawn", "torchrun")


def run(number: int, folder: Path, launchers: Sequence[str] = LAUNCHERS, procs: int = 2) -> dict[str, Any]:
    overrides = [*MICRO, f"seed={number}", f"loop.steps={STEPS}"]
    results = []
    for index, launcher in enumerate(launchers):
        with Job(folder / str(index), [*overrides, f"launcher={launcher}"], procs=procs) as job:
            results.append(job.trained())
    first = results[0]
    expect(all(len(losses) == STEPS for losses in first["losses"]), "losses are missing")
    for launcher, other in zip(launchers, results, strict=True):
        expect(first == other, f"two runs of the same spec differ, launcher={launchers[0]} and launcher={launcher}")
    return {"seed": number, "sha256": first["sha256"], "last_loss_hex": first["losses"][0][-1]}


CAMPAIGN = Campaign(
    name="same_seed",
    claim=("The same spec produces bit-identical losses and weights, however its ranks are launched."),
    trial=(
        f"trains a small GPT for {STEPS} steps on 2 ranks of one machine, with the trial's number as seed: twice"
        " with launcher=spawn, and once with launcher=torchrun. All losses and the sha256 of the final weights must"
        " be equal."
    ),
    count=3,
    run=run,
)
