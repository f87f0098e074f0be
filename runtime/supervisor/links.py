"""Link the supervisors of one attempt: a TCP connection from every node to node 0.

The links detect within seconds that a node has lost power or its network link, whatever the ranks are doing. They also
carry the run folder's marks (stop mark, first failure, first node that was asked to stop) and the command for mpirun's
daemons (mpi.py) to nodes that cannot access that folder.

In:  state/link, in which node 0 writes its port and the token that proves that a peer belongs to this run.
Out: the marks, in every node's run folder; `lost`, the nodes that connected once and then went silent.
A node that never connects is not counted as lost, and the job continues.
"""

from __future__ import annotations

import contextlib
import hmac
import os
import resource
import secrets
import selectors
import socket
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..network.json_connection import JsonConnection, prove_token
from ..run_folder.run_folder import (
    RunFolder,
    is_earlier_failure,
    read_small_file,
    record_first_failure,
    write_small_file,
)
from .peers import GOODBYE_S, JOIN_S

if TYPE_CHECKING:
    from ..network.json_connection import Message


BEAT_S = 2.0
DOUBT_S = 6.0  # reconnect after this silence because TCP retransmits more and more slowly
LOST_S = 20.0  # unplugging a cable for 5 s or 10 s does no harm
HEAD_LOST_S = 23.0  # longer than LOST_S: node 0, which is linked to all nodes, decides first which node is cut off
TICK_S = 0.3
CONNECT_S = 3.0
MOST_PAUSE_S = 5.0  # longest pause between attempts to connect


class SupervisorLinks(threading.Thread):
    """The part common to both sides: a thread that may block, and that uses only its links and marks."""

    lost_s = LOST_S
    then: int | None = None  # number of entries of `then`; None if no files of steps (steps.py) need to be sent

    def __init__(self, run: RunFolder, node: int) -> None:
        super().__init__(daemon=True, name="links")
        self.run_folder, self.node = run, node
        self.lost: dict[int, str] = {}  # node -> its host
        self.met: set[int] = set()  # nodes that were heard from at least once
        self._hosts: dict[int, str] = {}  # hosts of these nodes
        self._heard: dict[int, float] = {}  # node that has not ended -> when last heard from, monotonic seconds
        self._done: set[int] = set()  # nodes that have ended
        self._marks: dict[str, Message] = {}  # first line (`code`) and keys of each of these files
        self._mark_files = {
            "stop": run.stop_mark, "told": run.first_stop_file, "first": run.first_failure, "mpi": run.mpi_daemon,
        }  # fmt: skip
        self._links: list[JsonConnection] = []
        self._selector = selectors.DefaultSelector()
        self._ending, self._closed = threading.Event(), threading.Event()
        self._next_beat = 0.0

    def announce_end(self) -> None:
        """Announce that this node has ended. The thread runs until the peers know this, or on node 0 until all end."""
        self._ending.set()

    def has_node_ended(self, node: int) -> bool:
        return node in self._done or node in self.lost or self._has_ended(node)

    def close(self) -> None:
        """Close immediately, without notifying the peer."""
        self._closed.set()
        self.join()

    def run(self) -> None:
        deadline = float("inf")
        while not self._closed.is_set():
            if self._ending.is_set() and deadline == float("inf"):
                deadline = time.monotonic() + GOODBYE_S
                self._read_marks()
                self._send_marks()
                for link in self._links:
                    link.send(ended=True)
            self._exchange_messages()
            self._update_lost()
            if deadline < float("inf") and self._may_leave(deadline):
                break
        for link in list(self._links):
            self._drop_link(link)
        self._selector.close()

    def _exchange_messages(self) -> None:
        for key, _ in self._selector.select(TICK_S):
            if isinstance(key.data, JsonConnection):
                for message in key.data.receive():
                    self._on_message(key.data, message)
            else:
                self._accept_connection()
        self._read_marks()
        self._send_marks()
        if self.then is not None:
            self._send_step_files(step_file_names(self.node, self.then))
        if time.monotonic() >= self._next_beat:
            self._next_beat = time.monotonic() + BEAT_S
            for link in self._links:
                if link.node >= 0:
                    link.send()
        for link in list(self._links):
            link.flush()
            if not link.is_open or time.monotonic() - link.heard > DOUBT_S:
                self._drop_link(link)
        self._connect_to_head()

    def _on_message(self, link: JsonConnection, message: Message) -> None:
        if link.node < 0:
            self._on_greeting(link, message)
            return
        if link.node not in self._done:
            self._heard[link.node] = link.heard
        if message.get("ended"):
            self._on_end(link)
        if step := message.get("step"):
            self._create_step_file(link, str(step))
        for kind, path in self._mark_files.items():
            if isinstance(mark := message.get(kind), dict):
                if self._store_mark(kind, mark):
                    self._write_mark(kind, path, mark)
                if mark == self._marks[kind]:  # otherwise, this node's mark is earlier and the peer must receive it
                    link.told.add(kind)

    def _send_step_files(self, names: Sequence[str]) -> None:
        """Send the names of steps.py's existing files to the peers, which may be unable to access this folder."""
        untold: list[tuple[str, list[JsonConnection]]] = []
        for name in reversed(names):  # in this order, so that no file older than a found one is missed
            links = [link for link in self._links if link.node >= 0 and name not in link.told]
            if links and (self.run_folder.steps / name).exists():
                untold.append((name, links))
        for name, links in reversed(untold):
            for link in links:
                link.told.add(name)
                link.send(step=name)

    def _create_step_file(self, link: JsonConnection, name: str) -> None:
        """Create a file of steps.py that exists in the peer's folder."""
        if self.then is not None and name in step_file_names(link.node, self.then) and self.run_folder.path.is_dir():
            with contextlib.suppress(OSError):
                self.run_folder.steps.mkdir(parents=True, exist_ok=True)
                (self.run_folder.steps / name).touch()

    def _store_mark(self, kind: str, mark: Message) -> bool:
        """Store a mark to be sent to all peers. Return whether it is new. An earlier first failure counts as new."""
        current = self._marks.get(kind)
        if current is not None:
            is_next_mpirun = kind == "mpi" and mark != current  # in a job with `then`
            is_earlier = kind == "first" and is_earlier_failure(
                mark["code"], mark["keys"], current["code"], current["keys"]
            )
            if not (is_next_mpirun or is_earlier):
                return False
        self._marks[kind] = mark
        for link in self._links:
            link.told.discard(kind)
        return True

    def _write_mark(self, kind: str, path: Path, mark: Message) -> None:
        """Write a mark from another node to this run folder, for the supervisor and for people."""
        if not self.run_folder.path.is_dir():  # removed after this node ended
            return
        with contextlib.suppress(OSError):  # even with a full disk, the mark is forwarded
            if kind == "first":
                record_first_failure(self.run_folder, mark["code"], mark["keys"])
            else:
                write_small_file(path, mark["code"], mark["keys"], private=kind == "mpi")

    def _read_marks(self) -> None:
        for kind, path in self._mark_files.items():
            if content := read_small_file(path):
                self._store_mark(kind, {"code": content[0], "keys": content[1]})

    def _send_marks(self) -> None:
        for link in self._links:
            for kind in self._marks.keys() - link.told:
                if link.node >= 0:
                    link.told.add(kind)
                    link.send(**{kind: self._marks[kind]})

    def _update_lost(self) -> None:
        now = time.monotonic()
        self.lost = {n: self._hosts.get(n, "") for n, heard_at in self._heard.items() if now - heard_at > self.lost_s}

    def _add_link(self, connection: socket.socket, node: int = -1) -> JsonConnection:
        link = JsonConnection(connection, node)
        self._links.append(link)
        self._selector.register(connection, selectors.EVENT_READ, link)
        return link

    def _drop_link(self, link: JsonConnection) -> None:
        self._links.remove(link)
        self._selector.unregister(link.connection)
        link.connection.close()

    @property
    def _has_unsent_mark(self) -> bool:
        """Return whether the peer must receive a mark before this node leaves."""
        return bool(self._marks.keys() - {"mpi"})

    def _has_ended(self, node: int) -> bool:
        """Return whether the node's state file here records that the node ended. If so, its marks are here too."""
        return "ended" in (self.run_folder.keys_of_attempt(self.run_folder.node_state_file(node)) or {})

    # ---- differences between the two sides

    def _accept_connection(self) -> None:
        """Accept a connection."""

    def _connect_to_head(self) -> None:
        """Connect, if there is no connection."""

    def _on_greeting(self, link: JsonConnection, message: Message) -> None:
        """Handle a message from a peer that has not proved its identity."""

    def _on_end(self, link: JsonConnection) -> None:
        """Stop watching a peer that has ended, whatever its exit code."""
        self._done.add(link.node)  # the peer may still send a mark
        self._heard.pop(link.node, None)

    def _may_leave(self, deadline: float) -> bool:
        """Return whether the thread may end after this node has ended. deadline: monotonic seconds."""
        raise NotImplementedError


def step_file_names(node: int, then: int) -> tuple[str, ...]:
    """Return the names of the files that steps.py writes on a node and that other nodes wait for.

    then: number of entries of `then`. A resumed run skips the commands whose files exist before begun_0.
    """
    own = ("begun_0", "before", "go") if node == 0 else (f"begun_{node}", f"ready_{node}")
    word = "then_{}" if node == 0 else f"ended_{{}}_{node}"
    return (*(word.format(number) for number in range(1, then + 1)), *own)


class HeadLinks(SupervisorLinks):
    """Node 0's side. It listens as soon as it is created, and raises OSError if it cannot."""

    def __init__(self, run: RunFolder, node: int, nodes: int) -> None:
        super().__init__(run, node)
        self._nodes = nodes
        self._token = secrets.token_hex(16)
        has_dual_stack = socket.has_dualstack_ipv6()
        family = socket.AF_INET6 if has_dual_stack else socket.AF_INET
        self._listener = socket.create_server(("", 0), family=family, backlog=1024, dualstack_ipv6=has_dual_stack)
        self._listener.setblocking(False)
        self._selector.register(self._listener, selectors.EVENT_READ)
        port = self._listener.getsockname()[1]
        keys = {"attempt": run.attempt, "host": os.uname().nodename, "port": port, "token": self._token}
        write_small_file(run.supervisor_address_file, keys=keys, private=True)

    def _accept_connection(self) -> None:
        with contextlib.suppress(OSError):  # the peer is gone, or there are no file descriptors left
            connection, _ = self._listener.accept()
            link = self._add_link(connection)
            link.send(nonce=link.nonce)

    def _on_greeting(self, link: JsonConnection, message: Message) -> None:
        node = message.get("node")
        expected, received = prove_token(self._token, link.nonce), str(message.get("proof"))
        if not isinstance(node, int) or not hmac.compare_digest(received.encode(errors="replace"), expected.encode()):
            link.is_open = False
            return
        for earlier in self._links:
            if earlier.node == node:
                earlier.is_open = False
        link.node = node
        self.met.add(node)
        self._hosts[node] = str(message.get("host"))
        if node not in self._done:
            self._heard[node] = link.heard
        link.send(welcome=True)
        if self._ending.is_set():
            link.send(ended=True)

    def run(self) -> None:
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # one connection per node; the ranks already run
        super().run()
        self._listener.close()

    def _may_leave(self, deadline: float) -> bool:
        if self._has_unsent_mark and time.monotonic() < deadline + JOIN_S and self._are_nodes_missing():
            return False
        return all(map(self._has_ended, self._heard.keys() - self.lost.keys()))

    def _are_nodes_missing(self) -> bool:
        """Return whether a node has never connected and has not ended. A node without a supervisor counts as ended."""
        return any(node not in self.met and not self._has_ended(node) for node in range(1, self._nodes))


class LinkToHead(SupervisorLinks):
    """The other nodes' side. head: node 0's address."""

    lost_s = HEAD_LOST_S

    def __init__(self, run: RunFolder, node: int, head: str) -> None:
        super().__init__(run, node)
        self._head = head
        self._token = ""
        self._head_has_ended = False
        self._told: dict[str, Message] = {}  # the marks that node 0 had when this side sent its last message
        self._next_try, self._pause_s = 0.0, TICK_S

    def _connect_to_head(self) -> None:
        is_done = self._head_has_ended or (
            self._ending.is_set() and (not self._has_unsent_mark or self._told == self._marks)
        )
        if self._links or is_done or time.monotonic() < self._next_try:
            return
        self._pause_s = min(2 * self._pause_s, MOST_PAUSE_S)
        with contextlib.suppress(OSError, KeyError, ValueError):
            os.listdir(self.run_folder.supervisor_address_file.parent)  # makes a network file system refresh its cache
            if keys := self.run_folder.keys_of_attempt(self.run_folder.supervisor_address_file):
                self._token, self._hosts[0] = keys["token"], keys["host"]
                self._add_link(socket.create_connection((self._head, int(keys["port"])), timeout=CONNECT_S))
        self._next_try = time.monotonic() + self._pause_s

    def _on_greeting(self, link: JsonConnection, message: Message) -> None:
        if "nonce" in message:
            answer = prove_token(self._token, str(message["nonce"]))
            link.send(node=self.node, host=os.uname().nodename, proof=answer)
        elif message.get("welcome"):
            link.node = 0
            self.met.add(0)
            self._heard[0] = link.heard
            self._pause_s = TICK_S
            self._send_marks()
            if self._ending.is_set():
                link.send(ended=True)

    def _on_end(self, link: JsonConnection) -> None:
        super()._on_end(link)
        self._head_has_ended = True

    def _may_leave(self, deadline: float) -> bool:
        if any(link.node == 0 and self._marks.keys() <= link.told for link in self._links):
            self._told = dict(self._marks)  # node 0 then closes the connection: do not reconnect
        if not self._links and self._has_ended(0):
            self._head_has_ended = True
        nobody_waits = self._told == self._marks or self._head_has_ended or 0 in self.lost
        if self._has_unsent_mark and not nobody_waits and time.monotonic() < deadline + JOIN_S:
            return False
        self._next_beat = float("inf")
        for link in self._links:
            with contextlib.suppress(OSError):
                if link.flush():
                    link.connection.shutdown(socket.SHUT_WR)  # node 0 closes when it has read everything
        return not self._links or time.monotonic() > deadline
