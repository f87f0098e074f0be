"""Control Linux processes: start a program that cannot outlive its starter, find and kill all descendants, and receive
signals.

This module relies on three kernel features. A parent-death signal kills a child whenever its parent dies.
A child subreaper adopts all its orphaned descendants, so a daemon that forked twice and called setsid is found.
The start time in /proc/PID/stat distinguishes a process from an earlier process with the same PID.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import select
import signal
import threading
import time
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from pathlib import Path

PR_SET_PDEATHSIG = 1  # linux/prctl.h
PR_SET_CHILD_SUBREAPER = 36

# Python ignores the first two at start, and a background shell the last two; an ignored signal survives exec.
_RESET_AT_EXEC = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGQUIT)

_libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent(death_signal: int = signal.SIGKILL) -> None:
    """Ask the kernel to send this process `death_signal` when its parent thread ends. Survives exec but not fork."""
    _call_prctl(PR_SET_PDEATHSIG, death_signal)


def become_subreaper() -> None:
    """Make this process, instead of init, adopt its orphaned descendants. This survives exec, but not fork."""
    _call_prctl(PR_SET_CHILD_SUBREAPER, 1)


def _call_prctl(option: int, value: int) -> None:
    if _libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"prctl({option}): {os.strerror(number)}")


def start_in_own_session(
    argv: list[str],
    output: int | None = None,
    errors: int | None = None,
    environ: Mapping[str, str] | None = None,
    blocked: Collection[int] = (),
) -> int:
    """Start `argv` in its own session, and return its PID. It is killed when this process ends.

    output: file descriptor for its stdout and stderr, or None to use this process's own.
    errors: separate file descriptor for its stderr.
    blocked: signals that are blocked until the program unblocks them. All others are unblocked, even if this process
    blocks them.
    If the program cannot be started, raises OSError with the reason why exec failed.
    """
    read_end, write_end = os.pipe()  # a successful exec closes it; otherwise, it carries the errno
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            die_with_parent()
            if os.getppid() != parent:
                os._exit(1)
            signal.set_wakeup_fd(-1)
            for number in _RESET_AT_EXEC:
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            if output is not None:
                os.dup2(output, 1)
                os.dup2(output if errors is None else errors, 2)
            os.execvpe(argv[0], argv, os.environ if environ is None else environ)
        except OSError as error:
            os.write(write_end, str(error.errno).encode())
        finally:
            os._exit(127)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as pipe:
        failure = pipe.read()
    if failure:
        os.waitpid(pid, 0)
        raise OSError(int(failure), os.strerror(int(failure)), argv[0])
    return pid


def reap_children() -> list[tuple[int, int]]:
    """Return the PID and the exit code of every child that has ended, without waiting. Signal N gives exit code -N."""
    ended: list[tuple[int, int]] = []
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended
        if pid == 0:
            return ended
        ended.append((pid, os.waitstatus_to_exitcode(status)))


def process_start_time(pid: int) -> int | None:
    """Return a process's start time in clock ticks since boot (proc(5), field 22 of stat), or None if it is gone."""
    fields = _read_stat_fields(pid)
    return int(fields[19]) if fields else None


def is_running(pid: int, ticks: int) -> bool:
    """Return whether the process with this PID and start time exists and is not a zombie."""
    fields = _read_stat_fields(pid)
    return fields is not None and int(fields[19]) == ticks and fields[0] not in "ZX"


def _read_stat_fields(pid: int) -> list[str] | None:
    """Return the fields of /proc/PID/stat from the third (state) on. The second may contain spaces and parentheses."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None


def process_name(pid: int) -> str:
    """Return the name of a process (proc(5), comm), or an empty string if it is gone or outside this PID namespace."""
    try:
        return Path(f"/proc/{pid}/comm").read_text(errors="replace").rstrip("\n")
    except OSError:
        return ""


def descendants(root: int) -> list[tuple[int, int]]:
    """Return the PID and the start ticks of all living descendants of `root`, parents first."""
    children: dict[int, list[tuple[int, int]]] = {}
    for pid in (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()):
        if (fields := _read_stat_fields(pid)) and fields[0] not in "ZX":
            children.setdefault(int(fields[1]), []).append((pid, int(fields[19])))
    processes: list[tuple[int, int]] = []
    queue = [root]
    while queue:
        below = children.get(queue.pop(0), [])
        processes += below
        queue += [pid for pid, _ in below]
    return processes


def process_cpu_times(roots: Collection[int]) -> dict[int, int]:
    """Return the CPU time in clock ticks (user and system) of each process in `roots`, including all descendants."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for pid in (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()):
        if fields := _read_stat_fields(pid):
            parents[pid] = int(fields[1])
            ticks[pid] = sum(map(int, fields[11:15]))  # utime, stime, cutime, cstime
    used = dict.fromkeys(roots, 0)
    for pid, own in ticks.items():
        ancestor = pid
        while ancestor in parents and ancestor not in used:
            ancestor = parents[ancestor]
        if ancestor in used:
            used[ancestor] += own
    return used


def signal_process(pid: int, ticks: int, number: int) -> bool:
    """Send a signal to the process with this PID and start time. Return False if it is gone."""
    if not is_running(pid, ticks):
        return False
    try:
        os.kill(pid, number)
    except OSError as error:
        if error.errno != errno.ESRCH:
            raise
        return False
    return True


def kill_descendants(root: int, timeout_s: float = 10) -> list[int]:
    """Send SIGKILL to all descendants of `root` until none is left. Return the PIDs of those that do not die."""
    deadline = time.monotonic() + timeout_s
    while True:
        remaining = descendants(root)
        for pid, ticks in remaining:
            with contextlib.suppress(PermissionError):  # another user's program, started through sudo
                signal_process(pid, ticks, signal.SIGKILL)
        if not remaining or time.monotonic() > deadline:
            return [pid for pid, _ in remaining]
        time.sleep(0.01)


def identify_this_process() -> dict[str, object]:
    """Return what other processes need to recognize this one: its pid and start_ticks, and identify_machine()."""
    return {"pid": os.getpid(), "start_ticks": process_start_time(os.getpid()), **identify_machine()}


@lru_cache
def identify_machine() -> dict[str, str]:
    """Return this process's host, boot and pid_namespace. The last two are missing if /proc does not have them.

    boot: the kernel's boot ID (random(4)), which differs between machines with the same host name.
    pid_namespace: the inode of the PID namespace (pid_namespaces(7)), which differs between containers on one kernel.
    """
    keys = {"host": os.uname().nodename}
    with contextlib.suppress(OSError):
        namespace = os.stat("/proc/self/ns/pid").st_ino
        keys["boot"] = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        keys["pid_namespace"] = str(namespace)
    return keys


class SignalQueue:
    """Queue of the caught `signals`, for a select loop, so that no signal handler interrupts other code.

    Create only one per process, before any child is started.
    """

    def __init__(self, signals: Iterable[int]) -> None:
        self._senders: deque[int] = deque()  # PIDs that sent the signals received in the thread, in order of arrival
        self._read_end, self._write_end = os.pipe()
        os.set_blocking(self._read_end, False)
        os.set_blocking(self._write_end, False)
        signal.set_wakeup_fd(self._write_end, warn_on_full_buffer=False)
        for number in signals:
            signal.signal(number, lambda *_: None)

    def wait(self, timeout_s: float, *readable: int) -> tuple[list[int], list[int]]:
        """Return the signals in order of arrival, and those descriptors of `readable` that have input."""
        ready, _, _ = select.select([self._read_end, *readable], [], [], max(timeout_s, 0))
        arrived: list[int] = []
        if self._read_end in ready:
            ready.remove(self._read_end)
            arrived += os.read(self._read_end, 4096)
        return arrived, ready

    def receive_in_thread(self, signals: Iterable[int]) -> None:
        """Receive the blocked `signals` in a thread, so that their senders are known. A handler does not know them."""
        threading.Thread(target=self._receive_signals, args=(signals,), daemon=True).start()

    def _receive_signals(self, signals: Iterable[int]) -> None:
        while True:
            received = signal.sigwaitinfo(signals)
            self._senders.append(received.si_pid)
            os.write(self._write_end, bytes([received.si_signo]))

    def take_sender(self) -> int:
        """Return the PID that sent a signal received in the thread, or 0 if outside this PID namespace.

        Call it once for each such signal that wait() returns, in the same order.
        """
        return self._senders.popleft()


def start_under_keeper(argv: list[str], output: int, errors: int) -> int:
    """Start the launcher under a keeper, and return the keeper's PID.

    supervisor ── keeper ── torchrun or spawn ── rank wrappers ── ranks ── their children, daemons included

    The keeper is a small process which ensures that none of the job's processes outlives the supervisor or launcher.
    It adopts all its orphaned descendants, and kills them when the launcher ends or the supervisor dies, even by
    SIGKILL. If the keeper itself is killed, the launcher dies with it, and the supervisor adopts the rest.
    output, errors: file descriptors for stdout and stderr. Rank 0 prints both to `output`.
    The keeper exits with the launcher's exit code, or 128 + N if signal N killed the launcher.
    """
    supervisor = os.getpid()
    keeper = os.fork()
    if keeper == 0:
        status = 1
        try:
            status = _keep_processes(supervisor, argv, output, errors)
        finally:
            os._exit(status)
    return keeper


def _keep_processes(supervisor: int, argv: list[str], output: int, errors: int) -> int:
    os.setsid()
    signals = SignalQueue((signal.SIGCHLD, signal.SIGTERM))
    become_subreaper()
    die_with_parent(signal.SIGTERM)  # not by SIGKILL, because the keeper must first kill the other processes
    if os.getppid() != supervisor:
        return 1
    try:
        launcher = start_in_own_session(argv, output, errors)
    except OSError as error:
        os.write(errors, f"jobc: cannot start the launcher {argv[0]}: {error.strerror}\n".encode())
        return 127
    status = None
    while status is None:
        arrived, _ = signals.wait(3600)
        if signal.SIGTERM in arrived and os.getppid() != supervisor:  # otherwise, sent to all processes (shutdown)
            status = -signal.SIGTERM
        for pid, code in reap_children():
            if pid == launcher:
                status = code
    kill_descendants(os.getpid())
    return status if status >= 0 else 128 - status
