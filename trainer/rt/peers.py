"""The other nodes of an attempt: has somebody stopped the run, who failed first, and who is lost.

The first node that fails says so in exit/ATTEMPT/first, and all others end; so they do when a person leaves the stop
mark. Both are files of the run folder, which links.py takes to nodes that do not see it; a node whose power or cable is
gone is missed by node 0, and node 0 by all others, because the links tell it.
"""

from __future__ import annotations

import contextlib
import os
import time

from . import exit_codes
from .links import Hub, Links, Spoke
from .run_folder import RunFolder, read_small, write_small

BEAT_S = 5.0  # between two touches of this node's state file, by which other machines see that it lives


class Peers:
    """The nodes of one attempt but this one. Node 0 listens from now on."""

    def __init__(self, run: RunFolder, node: int, nodes: int, head: str) -> None:
        self.run, self.node = run, node
        self.links: Links | None = None
        if nodes > 1:
            self.links = Hub(run, node) if node == 0 else Spoke(run, node, head)
        self.next_beat = 0.0

    def start(self) -> None:
        """After the last fork of this process: the links are a thread."""
        if self.links:
            self.links.start()

    def trouble(self) -> str:
        """Why this node should end too, or ""."""
        self.beat()
        if not self.links:
            return ""
        if self.run.stop_mark.exists():
            return "stop.sh"
        first = read_small(self.run.first_failure)
        if first and first[1].get("node") != str(self.node):
            return f"node {first[1].get('node')} failed first (exit {first[0]}: {first[1].get('reason')})"
        for node, host in self.links.lost.items():
            reason = f"node {node} ({host}) does not answer: its power, its link or its supervisor is gone"
            self.tell(exit_codes.PEER_LOST, reason)
            return reason
        return ""

    def beat(self) -> None:
        if self.links and time.monotonic() >= self.next_beat:
            self.next_beat = time.monotonic() + BEAT_S
            with contextlib.suppress(OSError):  # a full disk or a file server that is away must not end the training
                os.utime(self.run.node_state(self.node))

    def tell(self, code: int, reason: str) -> None:
        """This node ended with `code`: the first one that failed is kept."""
        if self.links and code not in (exit_codes.DONE, exit_codes.PREEMPTED, exit_codes.INTERRUPTED):
            with contextlib.suppress(OSError):
                write_small(self.run.first_failure, str(code), {"node": self.node, "reason": reason}, keep=True)

    def leave(self) -> None:
        """Nothing of this node runs any more."""
        if self.links:
            self.links.end()

    @property
    def are_linked(self) -> bool:
        """The last word is not out; or this is node 0, and others need it."""
        return self.links is not None and self.links.is_alive()
