"""Send SIGKILL before every system call of a save: a checkpoint is either complete or absent."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .campaign import Campaign, Line, expect
from .disturbed_saves import disturb

# The system calls of Linux on x86-64 with which a save changes files, and two that occur between these.
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
    claim=(
        "A training that is killed at any point of a save resumes from a verified checkpoint: the last one reported as"
        " saved, or a newer one."
    ),
    trial=(
        "takes one system call, such as fsync. A training with two checkpoints trains two more steps and saves"
        " both, the first in the background. strace sends SIGKILL before the first such call that concerns a"
        " checkpoint; then, in a new copy, before the second; and so on, until the training ends first. Each time,"
        " the newest checkpoint must be intact and at least as new as the last reported save, and a resume must"
        " continue, save, and leave nothing of the killed save behind."
    ),
    count=len(SYSCALLS),
    run=run,
    figure=figure,
)
