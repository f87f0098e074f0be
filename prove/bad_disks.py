"""A disk that is full, out of inodes, read-only or broken prevents new checkpoints, but harms neither the training nor
old checkpoints.
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
    expect(passes["code"] == 0 and passes["newest"] == 20, "a disk that recovered ended the run", **measured)
    expect(passes["failed"] >= 2, "no save failed while the disk was bad", **measured)
    expect(stays["code"] == 1, f"with a disk that stays bad, the run exited with {stays['code']}", **measured)
    expect(MAX_FAILURES <= stays["failed"] <= MAX_FAILURES + 1, f"{stays['failed']} saves failed", **measured)
    expect(stays["newest"] == LAST_BEFORE, f"step {stays['newest']} is left, not {LAST_BEFORE}", **measured)
    expect(not passes["damaged"] and not stays["damaged"], "a checkpoint is damaged", **measured)
    expect(measured["again"] == 0, f"the resume exited with {measured['again']}", **measured)
    expect(passes["same"] and stays["same"], "losses or weights differ from those of an undisturbed run", **measured)
    return measured


CAMPAIGN = Campaign(
    name="bad_disks",
    claim=(
        "Training survives a disk on which checkpoints cannot be written, and the old checkpoints stay intact."
        " After three failed saves in a row, the run exits with 1."
    ),
    trial=(
        "trains 20 steps on a small tmpfs and saves every 2 steps, in every other trial in the background. The"
        " tmpfs is filled, runs out of inodes or is remounted read-only, or strace makes each write or fsync of a"
        " checkpoint fail with EIO. If the disk recovers, the training must exit with 0. If not, it must exit with"
        " 1 after three failures and keep the last checkpoint from before, from which a resume on the repaired disk"
        " must continue. Losses and weights must be bit-identical to those of an undisturbed run."
    ),
    count=20,
    run=run,
    figure=k_of_n_by("kind"),
)
