"""Connect one node's tasks if the engine itself, such as srun, starts a task for each rank.

Task 0 is the node's launcher: it starts the node's first rank and listens on a socket on this machine. Every other task
connects, receives its rank's environment, starts the rank as its child, forwards the signals that it receives, and
reports how the rank ended. The connection replaces the parent-death signal: if either end dies, the other end notices
immediately.

    launcher → task   the rank's environment as a line of JSON, then one byte for each signal; end of stream means kill
    task → launcher   a line with its local rank, then a line with the rank's exit code; end of stream means it died
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import socket
import struct
import sys
import time
from collections.abc import Mapping

from .. import exit_codes
from ..run_folder.run import NodeState
from ..run_folder.run_folder import RunFolder
from ..system import processes
from ..system.failure import Failure
from ..system.processes import SignalQueue
from .spawn import PASSED_ON

RETRY_S = 0.1
LOOK_S = 1.0  # pause between checks of whether task 0 is still running
ANSWER_S = 5.0  # time for a connected task to send its local rank


class TaskServer:
    """This node's other tasks, as seen by its launcher. environments: each rank's environment, by local rank."""

    def __init__(self, environments: Mapping[int, Mapping[str, str]], timeout_s: float) -> None:
        self.missing = dict(environments)
        self.deadline = time.monotonic() + timeout_s
        self.connected: dict[socket.socket, int] = {}
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(node_socket_address())
        self.listener.listen(len(self.missing))

    def __bool__(self) -> bool:
        return bool(self.missing or self.connected)

    def descriptors_to_poll(self) -> list[int]:
        return [self.listener.fileno(), *(connection.fileno() for connection in self.connected)]

    def serve_tasks(self, readable: list[int]) -> list[int]:
        """Accept new tasks, and return the exit codes of ranks that have ended."""
        ended = [self._exit_code_of(task) for task in list(self.connected) if task.fileno() in readable]
        if self.listener.fileno() in readable:
            self._accept_task()
        if self.missing and time.monotonic() > self.deadline:
            print(f"jobc: tasks on this node that have not started: {sorted(self.missing)}", file=sys.stderr)
            self.missing.clear()
            ended.append(exit_codes.CRASHED)
        return ended

    def _accept_task(self) -> None:
        task, _ = self.listener.accept()
        task.settimeout(ANSWER_S)
        words = _read_line(task) if _is_from_this_user(task) else b""
        local_rank = int(words) if words.isdigit() else -1
        if local_rank not in self.missing:
            task.close()
            return
        with contextlib.suppress(OSError):  # the task has died, so the connection ends
            task.sendall(json.dumps(self.missing[local_rank]).encode() + b"\n")
        del self.missing[local_rank]
        self.connected[task] = local_rank

    def _exit_code_of(self, task: socket.socket) -> int:
        code = _read_line(task)
        del self.connected[task]
        task.close()
        return int(code) if code else exit_codes.CRASHED

    def send_signal(self, number: int) -> None:
        """Send a signal to every running rank. Ranks that have not started yet will not be started."""
        self.missing.clear()
        for task in self.connected:
            with contextlib.suppress(OSError):
                task.sendall(bytes([number]))


def run_task(command: list[str], local_rank: int, timeout_s: float) -> int:
    """Run this task's rank for the node's launcher, and return the rank's exit code.

    timeout_s: how long to wait for task 0 to start. After that, it may take as long as it needs, because it first runs
    the lines of `before`.
    """
    signals = SignalQueue([*PASSED_ON, signal.SIGCHLD])
    processes.become_subreaper()
    try:
        launcher = _connect_to_launcher(timeout_s, signals)
    except Failure as error:
        print(f"jobc: task {local_rank}: {error}", file=sys.stderr)
        return exit_codes.RENDEZVOUS_FAILED
    launcher.sendall(f"{local_rank}\n".encode())
    environment = _read_line(launcher)
    if not environment:
        return exit_codes.CRASHED  # the node is already ending
    rank = processes.start_in_own_session(command, environ={**os.environ, **json.loads(environment)})
    code = _wait_for_rank(rank, launcher, signals)
    processes.kill_descendants(os.getpid())  # the rank's daemons, or the rank itself
    with contextlib.suppress(OSError):
        launcher.sendall(f"{code}\n".encode())
    return code


def _wait_for_rank(rank: int, launcher: socket.socket, signals: SignalQueue) -> int:
    while True:
        arrived, readable = signals.wait(60, launcher.fileno())
        numbers = [number for number in arrived if number in PASSED_ON]
        if readable:
            sent = launcher.recv(64)
            if not sent:
                return exit_codes.CRASHED
            numbers += sent
        for pid, status in processes.reap_children():
            if pid == rank:
                return status if status >= 0 else exit_codes.CRASHED
        for number in numbers:
            os.kill(rank, number)  # this process's own child, which is not reaped yet


def _connect_to_launcher(timeout_s: float, signals: SignalQueue) -> socket.socket:
    """Connect to this node's launcher. Raises Failure if it will not start the ranks."""
    run, node = RunFolder.from_environment(), int(os.environ["JOBC_NODE_RANK"])
    deadline, look_at = time.monotonic() + timeout_s, 0.0
    while not run.node_exit_file(node).exists():
        launcher = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with contextlib.suppress(ConnectionRefusedError, FileNotFoundError):
            launcher.connect(node_socket_address())
            if _is_from_this_user(launcher):
                return launcher
        launcher.close()
        if signals.wait(RETRY_S)[0]:  # asked to stop before the rank has started
            break
        if time.monotonic() > look_at:
            supervisor, look_at = _supervisor_process_state(run, node), time.monotonic() + LOOK_S
            if supervisor == "dead":
                raise Failure("task 0 of this node was killed before it started the ranks")
        if supervisor == "ended" or (not supervisor and time.monotonic() > deadline):
            break
    raise Failure("task 0 of this node has not started the ranks")


def _supervisor_process_state(run: RunFolder, node: int) -> str:
    """Return RecordedProcess.status() of this node's supervisor, which task 0 execs, or "" if it has not started."""
    state = NodeState(run.node_state_file(node))
    return state.status() if state.attempt == run.attempt else ""


def node_socket_address() -> str:
    """Return the node's socket address, which is abstract (unix(7)), so that no file or earlier run can replace it."""
    names = ("JOBC_RUN_DIR", "JOBC_ATTEMPT", "JOBC_NODE_RANK", "JOBC_JOB_ID")
    return "\0jobc-" + hashlib.sha256("\n".join(os.environ[name] for name in names).encode()).hexdigest()[:32]


def _is_from_this_user(connection: socket.socket) -> bool:
    """Return whether the peer is a process of this user. (Abstract sockets have no permissions.)"""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    _, user, _ = struct.unpack("3i", credentials)
    return bool(user == os.geteuid())


def _read_line(connection: socket.socket) -> bytes:
    """Read one line and return it without its newline, or b"" if the peer closed the connection."""
    received = b""
    with contextlib.suppress(OSError):
        while not received.endswith(b"\n") and (byte := connection.recv(1)):
            received += byte
    return received[:-1] if received.endswith(b"\n") else b""
