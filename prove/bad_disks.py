"""A disk that is full, out of inodes, read-only or broken costs new checkpoints, but neither the training nor old
ones.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .campaign import Campaign, expect, k_of_n_by
from .disturbed_saves import disturb

KINDS = ("full", "no inodes", "read-only", "EIO at write", "EIO at fsync")
LAST_BEFORE = 6  # the step saved before the disk goes bad
MAX_FAILURES = 3


def run(number: int, folder: Path) -> dict[str, Any]:
    kind = KINDS[number % len(KINDS)]
    measured = disturb(folder, "disk", kind, str(number // len(KINDS)), within=["unshare", "--mount"])
    passes, stays = measured["passes"], measured["stays"]
    expect(passes["code"] == 0 and passes["newest"] == 20, "a disk that got well again ended the run", **measured)
    expect(passes["failed"] >= 2, "no save failed while the disk was bad", **measured)
    expect(stays["code"] == 1, f"a disk that stays bad ended the run with {stays['code']}", **measured)
    expect(MAX_FAILURES <= stays["failed"] <= MAX_FAILURES + 1, f"{stays['failed']} saves failed", **measured)
    expect(stays["newest"] == LAST_BEFORE, f"step {stays['newest']} is left, not {LAST_BEFORE}", **measured)
    expect(not passes["damaged"] and not stays["damaged"], "a checkpoint is damaged", **measured)
    expect(measured["again"] == 0, f"the resume ended with {measured['again']}", **measured)
    expect(passes["same"] and stays["same"], "losses or weights differ from those of a quiet run", **measured)
    return measured


CAMPAIGN = Campaign(
    name="bad_disks",
    claim=(
        "Training survives a disk that rejects checkpoints, with the old ones intact; after three failures in a row the"
        " run exits with 1."
    ),
    trial=(
        "trains 20 steps, with a save every 2, of which every other trial writes them in the background, on a small"
        " tmpfs that is filled, runs out of inodes or is remounted read-only; or strace lets each write or fsync to a"
        " checkpoint fail with EIO. If the disk recovers, the training must exit with 0. If not, it"
        " must exit with 1 after three failures, with the last checkpoint from before, and a resume on the mended disk"
        " must go on. Losses and weights must be those of a quiet run, bit for bit."
    ),
    count=20,
    run=run,
    figure=k_of_n_by("kind"),
)
