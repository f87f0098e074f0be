"""Test the network between a job's nodes: node 0 and every other node connect to each other, in both directions.

In:  a folder in the run, on storage that all nodes share; the variables JOBC_NODES and JOBC_HEAD_ADDR.
Out: a NetworkTestResult on each node except node 0.
The nodes find each other through small files: `head` (node 0's port), node_NN (node NN's address and port), seen_NN
(node 0's result for node NN), and done_NN. Node 0 serves until all nodes are done, because the nodes may not all start
at the same time.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from ..network import interfaces
from ..network.reach import why_port_is_unreachable
from ..run_folder.run_folder import read_small_file, write_small_file

MEET_S = 20.0  # a file written on another node is expected to be visible within this time
QUIET_S = 15.0  # how long node 0 waits for one more node; ssh gives up on a dead host after 10 s
CONNECT_S = 5.0
POLL_S = 0.2


class NetworkTestResult(NamedTuple):
    """Result of the network test on one node. None means success; a string is the reason for the failure.

    clock_s: offset of node 0's clock, and the error of that offset, in seconds.
    """

    storage: str | None
    to_head: str | None
    from_head: str | None
    clock_s: tuple[float, float] | None


def serve_network_test(folder: Path, nodes: int, port: int, clock: Callable[[], float] = time.time) -> Iterator[None]:
    """Serve the other nodes from node 0. The generator's first step opens the port, and it ends when all are done."""
    with _serve_clock(port, clock) as listens_at:
        write_small_file(folder / "head", keys={"port": listens_at})
        yield
        met: set[str] = set()
        quiet_until = time.monotonic() + QUIET_S
        with ThreadPoolExecutor(max_workers=32) as pool:
            while True:
                names = set(os.listdir(folder))
                for name in sorted(n for n in names - met if n.startswith("node_")):
                    met.add(name)
                    pool.submit(_connect_back, folder, name)
                done = {name for name in names if name.startswith("done_")}
                if len(done) == nodes - 1:
                    return
                if len(met) > len(done):  # a node is still busy
                    quiet_until = time.monotonic() + QUIET_S
                if time.monotonic() > quiet_until:
                    return
                time.sleep(POLL_S)


def run_network_test(folder: Path, rank: int, head: str) -> NetworkTestResult:
    """Run the test and return its result, on any node except node 0."""
    head_keys = _wait_for_keys(folder / "head")
    if head_keys is None:
        guess = "node 0 has not started, or uses" if folder.is_dir() else "the folder does not exist: node 0 uses"
        why = f"found no files from node 0 in {folder} within {MEET_S:.0f} s; {guess} different storage"
        return NetworkTestResult(why, None, None, None)
    port = int(head_keys["port"])
    to_head = why_port_is_unreachable(head, port, CONNECT_S)
    clock_s = None if to_head else clock_difference(head, port)
    with _serve_clock(0, time.time) as listens_at:
        address = interfaces.local_address_for(head)
        write_small_file(folder / f"node_{rank:02}", keys={"address": address, "port": listens_at})
        answer = _wait_for_keys(folder / f"seen_{rank:02}")
    from_head = f"node 0 did not try to connect within {MEET_S:.0f} s" if answer is None else answer["why"] or None
    return NetworkTestResult(None, to_head, from_head, clock_s)


def report_network_test_done(folder: Path, rank: int) -> None:
    write_small_file(folder / f"done_{rank:02}", keys={"rank": rank})


def clock_difference(head: str, port: int, clock: Callable[[], float] = time.time) -> tuple[float, float] | None:
    """Return node 0's clock minus this node's, and half the round-trip time, in seconds, or None without an answer."""
    sent = clock()
    try:
        with socket.create_connection((head, port), timeout=CONNECT_S) as connection:
            head_time = float(connection.makefile().readline())
    except (OSError, ValueError):
        return None
    answered = clock()
    return head_time - (sent + answered) / 2, (answered - sent) / 2


@contextmanager
def _serve_clock(port: int, clock: Callable[[], float]) -> Iterator[int]:
    """Listen on a port, yield it, and send the time to each client. port: 0 for any free port"""
    dual = socket.has_dualstack_ipv6()
    with socket.create_server(
        ("", port), family=socket.AF_INET6 if dual else socket.AF_INET, dualstack_ipv6=dual, backlog=1024
    ) as server:
        threading.Thread(target=_answer_requests, args=(server, clock), daemon=True).start()
        yield server.getsockname()[1]


def _answer_requests(server: socket.socket, clock: Callable[[], float]) -> None:
    while True:
        try:
            connection, _ = server.accept()
            with connection:
                connection.sendall(f"{clock()}\n".encode())
        except OSError:
            if server.fileno() < 0:
                return  # closed: the check is over


def _connect_back(folder: Path, name: str) -> None:
    """Connect from node 0 to the address that a node wrote."""
    content = read_small_file(folder / name)
    assert content is not None, "the file was listed"
    why = why_port_is_unreachable(content[1]["address"], int(content[1]["port"]), CONNECT_S)
    write_small_file(folder / name.replace("node_", "seen_"), keys={"why": why or ""})


def _wait_for_keys(file: Path) -> dict[str, str] | None:
    deadline = time.monotonic() + MEET_S
    while time.monotonic() < deadline:
        if file.parent.is_dir():
            os.listdir(file.parent)  # makes a network file system refresh its cache
        content = read_small_file(file)
        if content is not None:
            return content[1]
        time.sleep(POLL_S)
    return None
