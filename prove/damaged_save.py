"""A damaged file in the newest checkpoint is detected and named, and the previous checkpoint is used."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .campaign import Campaign, Line, expect
from .disturbed_saves import disturb

BATCH = 20


def run(number: int, folder: Path, batch: int = BATCH) -> dict[str, Any]:
    corruptions = disturb(folder, "damage", str(number), str(batch))["corruptions"]
    wrong = [
        f"{corruption['file']} {corruption['how']}: {corruption['told']}"
        for corruption in corruptions
        if not corruption["ok"]
    ]
    measured = {
        "corruptions": [
            [corruption["file"], corruption["how"].split()[0], corruption["ok"]] for corruption in corruptions
        ],
        "noticed": len(corruptions) - len(wrong),
    }
    expect(not wrong, "; ".join(wrong), **measured)
    return measured


def figure(lines: Sequence[Line]) -> str:
    return (
        f"{sum(line.get('noticed', 0) for line in lines)} of {sum(len(line.get('corruptions', ())) for line in lines)}"
    )


CAMPAIGN = Campaign(
    name="damaged_save",
    claim=(
        "Any damage to any file of the newest checkpoint is detected and reported, and the previous checkpoint is"
        " used instead."
    ),
    trial=(
        f"applies {BATCH} random damages, each to a fresh copy of a training with two checkpoints. In a file of the"
        " newest checkpoint, possibly its manifest, one bit is flipped, or the file is truncated or deleted. The"
        " resume must start from the older checkpoint and name the file."
    ),
    count=10,
    run=run,
    figure=figure,
)
