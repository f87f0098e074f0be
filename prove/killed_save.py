"""SIGKILL before every system call of a save: a checkpoint is either complete or absent."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .campaign import Campaign, Line, expect
from .disturbed_saves import disturb

# System calls of Linux on x86-64 with which a save changes files, and two that occur between them.
SYSCALLS = (
    "rename", "fsync", "mkdir", "symlink", "unlink", "unlinkat", "rmdir", "openat", "close", "write", "getdents64",
)  # fmt: skip


def run(number: int, folder: Path) -> dict[str, Any]:
    syscall = SYSCALLS[number % len(SYSCALLS)]
    result = disturb(folder, "kill", syscall)
    measured = {"syscall": syscall, "points": result["points"], "num_wrong": result["num_wrong"]}
    expect(not result["wrong"], "; ".join(result["wrong"]), **measured)
    return measured


def figure(lines: Sequence[Line]) -> str:
    points = sum(line.get("points", 0) for line in lines)
    return f"{points - sum(line.get('num_wrong', 0) for line in lines):,} of {points:,} points of {len(lines)} calls"


CAMPAIGN = Campaign(
    name="killed_save",
    claim="Killed at any point of a save, a training goes on from a verified checkpoint, never older than the last.",
    trial=(
        "takes one system call, such as fsync. A training with two checkpoints makes two more steps and saves both,"
        " the first in the background; strace sends SIGKILL before the first such call that concerns a checkpoint, then"
        " in a new copy before the second, and so on until the training ends before it comes. Each time the newest"
        " checkpoint must be sound and at least of the last step that was said to be saved, and a resume must go on,"
        " save, and leave nothing behind of the save that was killed."
    ),
    count=len(SYSCALLS),
    run=run,
    figure=figure,
)
