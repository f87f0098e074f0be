"""The other nodes of an attempt, as far as the run folder tells: who failed first, and who has gone silent.

Every supervisor touches its own state file now and then. Node 0 watches all others, they watch node 0: so a node that
lost its power or its link is noticed by somebody, also when the program of the ranks has no timeout of its own.
The first node that fails says so in exit/ATTEMPT/first, and all others end.
"""

from __future__ import annotations

import contextlib
import os
import time

from . import exit_codes
from .run_folder import RunFolder, read_small, write_small

BEAT_S = 5.0
SILENT_S = 60.0  # on a network file system a beat arrives late: attributes are cached for up to 60 s on some (nfs(5))


class Peers:
    """The nodes of one attempt but this one."""

    def __init__(self, run: RunFolder, node: int, nodes: int) -> None:
        self.run, self.node = run, node
        self.watched = () if nodes == 1 else range(1, nodes) if node == 0 else (0,)
        self.others = nodes > 1
        self.next_beat = 0.0

    def trouble(self) -> str:
        """Why this node should end too, or ""."""
        if self.others and self.run.stop_mark.exists():
            return "stop.sh"
        first = read_small(self.run.first_failure)
        if first and first[1].get("node") != str(self.node):
            return f"node {first[1].get('node')} failed first (exit {first[0]}: {first[1].get('reason')})"
        if time.monotonic() < self.next_beat:
            return ""
        self.next_beat = time.monotonic() + BEAT_S
        with contextlib.suppress(OSError):  # a full disk or a file server that is away must not end the training
            return self._silent()
        return ""

    def _silent(self) -> str:
        """Beat; then compare file times with one another, for clocks of two machines may differ."""
        mine = self.run.node_state(self.node)
        os.utime(mine)
        now = mine.stat().st_mtime
        for node in self.watched:
            state = read_small(self.run.node_state(node))
            if not state or state[1].get("attempt") != str(self.run.attempt) or "ended" in state[1]:
                continue  # not there yet: the ranks' meeting has its own deadline
            silent_s = now - self.run.node_state(node).stat().st_mtime
            if silent_s > SILENT_S:
                reason = f"node {node} ({state[1].get('host')}) has been silent for {silent_s:.0f} s"
                self.tell(exit_codes.PEER_LOST, reason)
                return reason
        return ""

    def tell(self, code: int, reason: str) -> None:
        """This node ended with `code`: the first one that failed is kept."""
        if self.others and code not in (exit_codes.DONE, exit_codes.PREEMPTED, exit_codes.INTERRUPTED):
            with contextlib.suppress(OSError):
                write_small(self.run.first_failure, str(code), {"node": self.node, "reason": reason}, keep=True)
