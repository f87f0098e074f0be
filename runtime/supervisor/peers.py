"""Watch an attempt's other nodes, and find out whether the run was stopped and which node failed first, was asked to
stop, or is lost.

A failed node writes exit/ATTEMPT/first, where the earliest failure is kept; the first node that is asked to stop writes
exit/ATTEMPT/stop; and jobctl stop writes the stop mark. All other nodes then exit. These files are in the run folder;
links.py copies them to nodes that do not share it. Through its links, node 0 detects that a node has lost power or
network, and the other nodes detect the loss of node 0. Without a link, a lost node is detected by its missing heartbeat
in a shared run folder. Messages name the host that does not respond.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from typing import TYPE_CHECKING

from .. import exit_codes
from ..run_folder.run_folder import RunFolder, read_small_file, record_first_failure, write_small_file

if TYPE_CHECKING:
    from .links import SupervisorLinks

BEAT_S = 5.0  # pause between heartbeats, which touch this node's state file
SILENT_S = 60.0  # network file systems cache attributes for up to 60 s (nfs(5)), so a heartbeat may arrive late
MARK_S = 2.0  # how long jobctl stop may take, after writing the stop mark, to send a signal if it can
GOODBYE_S = 5.0  # time for a peer to read a link's last messages
JOIN_S = 30.0  # how long a node that fails immediately waits until the others have started and received the failure
ANSWER_S, MOST_ASKED = 3.0, 64  # timeout for a host to respond, and how many hosts are contacted simultaneously


class PeerNodes:
    """An attempt's other nodes. Node 0 listens as soon as this object exists."""

    def __init__(self, run: RunFolder, node: int, nodes: int, head: str) -> None:
        self.run, self.node = run, node
        self.others = [number for number in range(nodes) if number != node]
        self.links: SupervisorLinks | None = None
        if self.others:
            from .links import HeadLinks, LinkToHead  # packed only in jobs with several nodes

            self.links = HeadLinks(run, node, nodes) if node == 0 else LinkToHead(run, node, head)
        self.watched = range(1, nodes) if node == 0 else (0,)
        self.next_beat = 0.0
        self.silent = ""
        self.marked = False

    def start_links(self) -> None:
        """Start the links' thread. Called after this process's last fork."""
        if self.links:
            self.links.start()

    def touch_state_file(self) -> None:
        """Touch this node's state file every few seconds, even while it is stopping. (Saving may take a long time.)"""
        if time.monotonic() >= self.next_beat:
            self.next_beat = time.monotonic() + BEAT_S
            with contextlib.suppress(OSError):  # a full disk or an unavailable file server must not stop the training
                os.utime(self.run.node_state_file(self.node))
                self.marked = self._is_mark_overdue()
                self.silent = self._describe_silent_node()

    def reason_to_end(self) -> str:
        """Return why this node should also end, or ""."""
        if not self.links:
            return "jobctl stop" if self.marked else ""
        if self.run.stop_mark.exists():
            return "jobctl stop"
        first = read_small_file(self.run.first_failure)
        if first and first[1].get("node") != str(self.node):
            return f"node {first[1].get('node')} failed first (exit {first[0]}: {first[1].get('reason')})"
        stop = read_small_file(self.run.first_stop_file)
        if stop and stop[1].get("node") != str(self.node):
            return f"node {stop[1].get('node')} was asked to stop ({stop[1].get('reason')})"
        for node, host in self.links.lost.items():
            reason = f"node {node} ({host}) does not respond: it lost power, its network link or its supervisor"
            self.announce_failure(exit_codes.PEER_LOST, reason)
            return reason
        if self.silent:
            self.announce_failure(exit_codes.PEER_LOST, self.silent)
        return self.silent

    def _is_mark_overdue(self) -> bool:
        """Return whether the stop mark is older than MARK_S, so its writer apparently cannot signal this process."""
        with contextlib.suppress(FileNotFoundError):
            now = self.run.node_state_file(self.node).stat().st_mtime
            return now - self.run.stop_mark.stat().st_mtime > MARK_S
        return False

    def _describe_silent_node(self) -> str:
        """Return text that names a watched node that has no link and whose heartbeat has stopped, or "" if none has."""
        # file times are compared with each other because the clocks of two machines may differ
        now = self.run.node_state_file(self.node).stat().st_mtime
        for node in self.watched:
            if self.links and self.links.is_alive() and node in self.links.met:
                continue  # the link detects a loss sooner
            state = self.run.keys_of_attempt(self.run.node_state_file(node))
            if not state or "ended" in state:
                continue  # the node has not started yet, and the rendezvous has its own timeout
            silent_s = now - self.run.node_state_file(node).stat().st_mtime
            if silent_s > SILENT_S:
                return f"node {node} ({state.get('host')}) has not responded for {silent_s:.0f} s"
        return ""

    def announce_failure(self, code: int, reason: str, rank: int | None = None, time_ns: int | None = None) -> None:
        """Announce that this node, or one of its ranks, has failed. time_ns: time of the failure, or None for now"""
        if not self.others or code in (exit_codes.DONE, exit_codes.PREEMPTED, exit_codes.INTERRUPTED):
            return
        keys: dict[str, object] = {"node": self.node, "time_ns": time_ns or time.time_ns()}
        if rank is not None:
            keys["rank"] = rank
        record_first_failure(self.run, str(code), {**keys, "reason": reason})

    def announce_stop(self, reason: str) -> None:
        """Announce that this node is stopping early, so that the others, which may not notice, save too."""
        if self.others and not self.run.first_stop_file.exists():
            with contextlib.suppress(OSError):
                write_small_file(self.run.first_stop_file, keys={"node": self.node, "reason": reason})

    def running_nodes(self, waited_s: float) -> list[int]:
        """Return the other nodes whose ranks may still be running.

        waited_s: how many seconds the caller has waited for them. A node that has not started counts only for the first
        few seconds, because it may never start.
        """
        if not self.links or self.silent:
            return []
        nodes = [node for node in self.others if not self.links.has_node_ended(node)]
        return [node for node in nodes if waited_s < JOIN_S or self._has_begun(node)]

    def _has_begun(self, node: int) -> bool:
        is_known = self.run.keys_of_attempt(self.run.node_state_file(node)) is not None
        return is_known or (self.links is not None and node in self.links.met)

    def announce_end(self) -> None:
        """Record that nothing is running on this node any more."""
        if self.links:
            self.links.announce_end()

    def close(self) -> None:
        """Close the links immediately, without a last message."""
        if self.links:
            self.links.close()

    @property
    def are_linked(self) -> bool:
        """Return whether the links are still needed: the last message is unsent, or nodes still depend on node 0."""
        return self.links is not None and self.links.is_alive()

    def describe_unreachable_nodes(self) -> str:
        """Return text that names the nodes that do not respond, or "". A refused connection counts as a response."""
        from concurrent.futures import ThreadPoolExecutor  # rarely needed

        with ThreadPoolExecutor(MOST_ASKED) as threads:
            hosts = zip(self.others, threads.map(self._host_of_silent_node, self.others), strict=True)
        names = [f"node {node} ({host})" for node, host in hosts if host]
        myself = f"node {self.node} ({os.uname().nodename})"
        if not names:
            return ""
        if len(names) < len(self.others):
            return f"{', '.join(names[:10])} {'does' if len(names) == 1 else 'do'} not respond"
        return (
            f"{myself} cannot reach any other node"
            if len(names) > 1
            else f"{myself} and {names[0]} cannot reach each other"
        )

    def _host_of_silent_node(self, node: int) -> str:
        """Return the name of the node's host if it does not respond, or "" if it does."""
        state = read_small_file(self.run.node_state_file(node))
        host = state[1].get("host", "") if state else ""
        if not host:
            return ""
        try:
            socket.create_connection((host, 1), ANSWER_S).close()
        except (ConnectionRefusedError, socket.gaierror):  # a name that does not resolve on this node proves nothing
            return ""
        except OSError:
            return host
        return ""
