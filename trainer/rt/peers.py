"""The other nodes of an attempt, as far as the run folder tells: who failed first, and who has gone silent.

Every supervisor touches its own state file now and then. Node 0 watches all others, they watch node 0: so a node that
lost its power or its link is noticed by somebody, also when the program of the ranks has no timeout of its own.
A node that fails says so in exit/ATTEMPT/first, where the earliest failure stays; the first that is told to end says so
in exit/ATTEMPT/stop; and all others end. A lost peer has a name: whichever host does not answer on the network.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from . import exit_codes
from .run_folder import RunFolder, read_small, write_small

BEAT_S = 5.0
SILENT_S = 60.0  # on a network file system a beat arrives late: attributes are cached for up to 60 s on some (nfs(5))
ANSWER_S, MOST_ASKED = 3.0, 64  # for a host to answer, and how many are asked at once


class Peers:
    """The nodes of one attempt but this one."""

    def __init__(self, run: RunFolder, node: int, nodes: int) -> None:
        self.run, self.node = run, node
        self.watched = () if nodes == 1 else range(1, nodes) if node == 0 else (0,)
        self.others = [other for other in range(nodes) if other != node]
        self.next_beat = 0.0
        self.silent = ""

    def beat(self) -> None:
        """Touch the state file of this node, and look for silence in those that it watches; every few seconds.

        A node goes on with it while it stops: saving may take longer than it may be silent.
        """
        if time.monotonic() < self.next_beat:
            return
        self.next_beat = time.monotonic() + BEAT_S
        with contextlib.suppress(OSError):  # a full disk or a file server that is away must not end the training
            os.utime(self.run.node_state(self.node))
            self.silent = self._silent()

    def trouble(self) -> str:
        """Why this node should end too, or ""."""
        if self.others and self.run.stop_mark.exists():
            return "stop.sh"
        first = read_small(self.run.first_failure)
        if first and first[1].get("node") != str(self.node):
            return f"node {first[1].get('node')} failed first (exit {first[0]}: {first[1].get('reason')})"
        stop = read_small(self.run.first_stop)
        if stop and stop[1].get("node") != str(self.node):
            return f"node {stop[1].get('node')} was told to end ({stop[1].get('reason')})"
        if self.silent:
            self.tell(exit_codes.PEER_LOST, self.silent)
        return self.silent

    def _silent(self) -> str:
        """Compares file times with one another, for clocks of two machines may differ."""
        now = self.run.node_state(self.node).stat().st_mtime
        for node in self.watched:
            state = read_small(self.run.node_state(node))
            if not state or state[1].get("attempt") != str(self.run.attempt) or "ended" in state[1]:
                continue  # not there yet: the ranks' meeting has its own deadline
            silent_s = now - self.run.node_state(node).stat().st_mtime
            if silent_s > SILENT_S:
                return f"node {node} ({state[1].get('host')}) has been silent for {silent_s:.0f} s"
        return ""

    def tell(self, code: int, reason: str, rank: int | None = None, time_ns: int | None = None) -> None:
        """This node, or that rank of it, failed at `time_ns`, or now: told until it, or an earlier one, is known.

        A rank that lost its peer failed because of another: it counts only where there is no other. Two nodes may
        write at the same moment, so a node that fails goes on telling.
        """
        if not self.others or code in (exit_codes.DONE, exit_codes.PREEMPTED, exit_codes.INTERRUPTED):
            return
        mine: dict[str, object] = {"node": self.node, "time_ns": time_ns or time.time_ns()}
        if rank is not None:
            mine["rank"] = rank
        known = read_small(self.run.first_failure)
        if known and _order(*known) <= _order(str(code), mine):
            return
        with contextlib.suppress(OSError):
            write_small(self.run.first_failure, str(code), {**mine, "reason": reason})

    def share_stop(self, reason: str) -> None:
        """This node ends before its time, so the others have to save as well: a program may not notice by itself."""
        if self.others:
            with contextlib.suppress(OSError):
                write_small(self.run.first_stop, keys={"node": self.node, "reason": reason}, keep=True)

    def unreachable(self) -> str:
        """Which nodes do not answer, in words, or "". Any port will do: a refusal is an answer."""
        with ThreadPoolExecutor(MOST_ASKED) as threads:
            hosts = zip(self.others, threads.map(self._silent_host, self.others), strict=True)
        names = [f"node {node} ({host})" for node, host in hosts if host]
        myself = f"node {self.node} ({os.uname().nodename})"
        if len(names) < len(self.others):
            return f"{', '.join(names[:10])} {'does' if len(names) == 1 else 'do'} not answer" if names else ""
        return (
            f"{myself} and {names[0]} do not reach each other" if len(names) == 1 else f"{myself} reaches no other node"
        )

    def _silent_host(self, node: int) -> str:
        """The name of that node's host if it does not answer, else ""."""
        state = read_small(self.run.node_state(node))
        host = state[1].get("host", "") if state else ""
        return host if host and not _answers(host) else ""


def _order(code: str, keys: Mapping[str, object]) -> tuple[bool, int]:
    """The least is the first failure."""
    return code == str(exit_codes.PEER_LOST) and "rank" in keys, int(str(keys.get("time_ns", 0)))


def _answers(host: str) -> bool:
    try:
        socket.create_connection((host, 1), ANSWER_S).close()
    except (ConnectionRefusedError, socket.gaierror):  # a name that this node does not know says nothing
        return True
    except OSError:
        return False
    return True
