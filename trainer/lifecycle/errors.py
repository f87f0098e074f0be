"""Known causes of failure, each with a short message for the user and an exit code for the launcher.

Any other exception keeps its traceback (see exit_rank.py). Standard library only.
"""

import os
from collections.abc import Sequence

from ...runtime import exit_codes


class TrainerError(Exception):
    """Error with a message for the user. `details` are additional lines; `hint` says what to do next."""

    code = exit_codes.CRASHED

    def __init__(self, title: str, details: Sequence[str] = (), hint: str | None = None) -> None:
        super().__init__(title)
        self.title = title
        self.details = tuple(details)
        self.hint = hint

    def __str__(self) -> str:
        lines = [self.title, *(f"  {line}" for line in self.details)]
        if self.hint:
            lines.append(f"  = hint: {self.hint}")
        return "\n".join(lines)


class BrokenInput(TrainerError):
    """Invalid configuration, environment or data: another attempt would also fail."""

    code = exit_codes.DATA_BROKEN


class RendezvousFailed(TrainerError):
    """Raised for a rendezvous timeout or error."""

    code = exit_codes.RENDEZVOUS_FAILED


class PeerLost(TrainerError):
    """Raised if another rank, or the connection to it, was lost after the rendezvous."""

    code = exit_codes.PEER_LOST


class StorageLost(TrainerError):
    """Raised if a file exists but cannot be read (I/O error); another attempt may succeed."""

    code = exit_codes.PEER_LOST


class RankHangs(TrainerError):
    """Raised if this rank hangs and no collective timeout will stop it."""

    code = exit_codes.PEER_LOST


class StoppedBeforeTraining(TrainerError):
    """Raised if a stop signal arrived before there was anything to save."""

    code = exit_codes.PREEMPTED


class LossDiverged(TrainerError):
    """NaN or Inf in the loss or its gradient."""


def list_names(names: Sequence[str]) -> str:
    """Return the first eight names and the number of the others, for a message."""
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")


def dead_worker_error(pid: int | str, how: str) -> TrainerError:
    """Return the error for a dead data loader process. The data is rarely the cause, so a retry may succeed."""
    title = f"rank {os.environ.get('RANK', '0')}: data loader process {pid} died: {how}"
    return TrainerError(title, hint="probably out of memory: raise `mem`, or lower loader.workers")


def unreadable_checkpoint_error(message: str) -> StorageLost:
    """Return the error for an unreadable checkpoint. message: the file and the I/O error"""
    hint = "check the disk, then --resume: the checkpoint may be intact, so it is neither skipped nor removed;"
    hint += " to continue without that checkpoint, move its folder away"
    return StorageLost(message, hint=hint)
