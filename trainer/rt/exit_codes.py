"""The exit codes of a job, the same through every launcher and backend, and which wins when ranks differ."""

from __future__ import annotations

from collections.abc import Iterable

DONE = 0
CRASHED = 1
DATA_BROKEN = 65
PEER_LOST = 69
RENDEZVOUS_FAILED = 71
PREEMPTED = 75
INTERRUPTED = 130  # what a foreground launch returns after Ctrl-C; never the code of a rank

# Strongest first: a broken configuration must not be retried because some other rank only lost its peer.
PRIORITY = (DATA_BROKEN, RENDEZVOUS_FAILED, CRASHED, PEER_LOST, PREEMPTED, DONE)

MEANING = {
    DONE: "done",
    CRASHED: "crashed",
    DATA_BROKEN: "invalid data or configuration: a restart will not help",
    PEER_LOST: "lost another rank, its network link or storage",
    RENDEZVOUS_FAILED: "rendezvous timeout: the ranks did not find each other",
    PREEMPTED: "stopped early",
    INTERRUPTED: "stopped by Ctrl-C",
}

# jobc and torchrun kill the wrapper of a rank, so a rank whose wrapper lives was killed by somebody else.
KILLED = "killed by SIGKILL, not sent by jobc: probably out of memory (check dmesg)"


def worst(codes: Iterable[int]) -> int:
    """The code of a node from the codes of its ranks. Codes outside PRIORITY are not allowed."""
    return min(codes, key=PRIORITY.index)
