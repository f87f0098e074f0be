"""Causes of failure that are known in advance: a short message for the user, an exit code for the launcher.

Everything else is a bug or a surprise and keeps its traceback (see leave.py). Standard library only.
"""

import os
from collections.abc import Sequence

from ..rt import exit_codes


class TrainerError(Exception):
    """One error with a message. `details` are further lines, `hint` is the next step."""

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
    """Configuration, environment or data that another attempt would find broken again."""

    code = exit_codes.DATA_BROKEN


class RendezvousFailed(TrainerError):
    """The ranks did not find each other."""

    code = exit_codes.RENDEZVOUS_FAILED


class PeerLost(TrainerError):
    """Another rank, or the link to it, went away after training began."""

    code = exit_codes.PEER_LOST


class StorageLost(TrainerError):
    """A disk that does not give what is there, and may give it to another attempt."""

    code = exit_codes.PEER_LOST


class Hangs(TrainerError):
    """Error of a rank that cannot continue while no other rank waits for it in a collective."""

    code = exit_codes.PEER_LOST


class StoppedEarly(TrainerError):
    """A stop signal came before there was anything to save."""

    code = exit_codes.PREEMPTED


class Diverged(TrainerError):
    """Raised for a NaN or Inf loss."""


def lost_worker(pid: int | str, how: str) -> TrainerError:
    """A process that reads data is gone: seldom its own fault, so that another attempt may do better."""
    title = f"rank {os.environ.get('RANK', '0')}: data loader process {pid} died: {how}"
    return TrainerError(title, hint="probably out of memory: raise `mem`, or lower loader.workers")


def unreadable(why: str) -> StorageLost:
    """why: the file, and what the disk said"""
    hint = "the checkpoint may be intact, so it is neither skipped nor removed: check the disk, then --resume;"
    hint += " to continue without that checkpoint, move its folder away"
    return StorageLost(why, hint=hint)
