"""Find the checkpoint that a resume would load."""

from __future__ import annotations

from pathlib import Path

from jobc.trainer.checkpoint.store import checkpoints_newest_first, find_checkpoint_problem


def newest_verified(root: Path) -> tuple[Path | None, list[str]]:
    """Return the newest sound checkpoint, and a line for each newer damaged one.

    Raises like find_checkpoint_problem().
    """
    damaged: list[str] = []
    for folder in checkpoints_newest_first(root):
        reason = find_checkpoint_problem(folder)
        if reason is None:
            return folder, damaged
        damaged.append(f"{folder.name}: {reason}")
    return None, damaged
