"""The default job learns, measured in bits per byte of unseen Python sources."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jobc.trainer.loop.metrics import read_metrics

from .campaign import Campaign, Line, expect
from .job import Job

GOAL = 4.0
UNIFORM = 8.0  # bits per byte of a uniform guess


def run(number: int, folder: Path) -> dict[str, Any]:
    measured = train(folder)
    last = max(measured["held_out"], key=int)
    expect(measured["held_out"][last] < GOAL, f"{measured['held_out'][last]} bits per byte", **measured)
    return measured


def train(folder: Path, *overrides: str) -> dict[str, Any]:
    """Train, and return bits per byte: for the first batch, which the untrained model sees, and for held-out files.

    Those for held-out files are listed by step.
    """
    with Job(folder, overrides) as job:
        job.trained()
        lines = list(read_metrics(job.metrics()))
    held_out = {str(line["step"]): line["val_bits_per_byte"] for line in lines if "val_loss" in line}
    return {"untrained": lines[0]["bits_per_byte"], "held_out": held_out}


def figure(lines: Sequence[Line]) -> str:
    (line,) = lines[:1]
    if not line.get("held_out"):
        return "did not finish"
    last = max(line["held_out"], key=int)
    return f"{line['untrained']:.2f} before, {line['held_out'][last]:.2f} bits per byte after {last} steps"


CAMPAIGN = Campaign(
    name="learns",
    claim=(f"The default job learns on 2 CPU ranks: it reaches less than {GOAL} bits per byte on unseen files."),
    trial=(
        "is `jobc procs=2` with all defaults, trained to the end. Before: the untrained model on the first training"
        f" batch (a uniform guess has {UNIFORM}). After: the last measurement on the held-out files."
    ),
    count=1,
    run=run,
    figure=figure,
)
