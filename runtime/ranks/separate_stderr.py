"""Write the ranks' standard error to the node's own stderr too, for engines that keep stderr in a separate file.

launch.py names its stderr by a path in /proc, because launchers such as torchrun close inherited descriptors.
"""

from __future__ import annotations

import os

STDERR = "JOBC_STDERR"
WANTED = "separate"  # value set by the engine (Slurm: batch.py), which launch.py replaces with the path


def name_own_stderr() -> None:
    """If the engine wants a separate stderr, name this process's stderr for the ranks."""
    if os.environ.pop(STDERR, "") == WANTED:
        os.environ[STDERR] = f"/proc/{os.getpid()}/fd/2"


def open_stderr(path: str) -> int | None:
    """Open the node's stderr for a rank, or return None.

    Writing does not block, so that output that no one reads can be dropped (LossyLog); the rank's log contains it.
    """
    try:
        return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except OSError:  # "" if not wanted, or /proc is hidden
        return None
