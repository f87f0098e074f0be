"""Processes on hosts: enter their namespaces, signal and list them, and wait for their effects."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from .install import PATH

TIMEOUT_S = 180.0


class Failed(AssertionError):
    """Raised if a command that had to succeed did not; the text contains all its output."""


@dataclass(frozen=True)
class Seen:
    """A process on a host. pid: as seen by this test; own_pid: as numbered by its host."""

    pid: int
    own_pid: int
    command: str
    environment: Mapping[str, str]


class Process(subprocess.Popen[str]):
    """A process on a host. It runs behind nsenter, which exits with its exit code; signals go to the process itself."""

    @property
    def inner_pid(self) -> int:
        return only_child(self.pid)

    def send_signal(self, sig: int) -> None:
        with contextlib.suppress(ProcessLookupError, Failed):  # the process has just ended
            if self.poll() is None:
                os.kill(self.inner_pid, sig)

    def kill_all(self) -> None:
        """Kill the process and all its descendants: without its shell, a process such as salloc may spin forever."""
        for pid in reversed(descendants(self.pid)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def descendants(pid: int) -> list[int]:
    """Return the IDs of a process's descendants, parents first."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            found += [int(child), *descendants(int(child))]
    return found


def entering(pid: int, *namespaces: str) -> list[str]:
    """Return the first words of a command that runs in the namespaces of a process."""
    nsenter = shutil.which("nsenter", path=PATH)
    assert nsenter is not None
    return [nsenter, f"--target={pid}", *namespaces, "--"]


def wait_for(condition: Callable[[], bool], what: str, timeout_s: float = TIMEOUT_S) -> None:
    """Wait for a condition. Checking it takes at most a third of the time, because the condition may run a script, and
    the awaited process needs the machine too.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        began = time.monotonic()
        if condition():
            return
        looked = time.monotonic()
        if looked > deadline:
            raise Failed(f"waited {timeout_s:.0f} s for {what}")
        time.sleep(max(0.02, 2 * (looked - began)))


def only_child(pid: int) -> int:
    """Return the only child that nsenter or unshare started."""
    children: list[str] = []

    def is_there() -> bool:
        with contextlib.suppress(OSError):
            children[:] = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return bool(children) or is_over(pid)

    wait_for(is_there, f"process {pid} to start its child")
    if not children:
        raise Failed(f"process {pid} ended before it had a child")
    return int(children[0])


def is_over(pid: int) -> bool:
    """Return whether the process is gone or a zombie."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    return True


def in_namespace(pid: int) -> list[Seen]:
    """Return all processes in a PID namespace except zombies, oldest first, because process IDs are reused."""
    namespace = os.readlink(f"/proc/{pid}/ns/pid")
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if os.readlink(folder / "ns" / "pid") != namespace:
                continue
            words = (folder / "cmdline").read_bytes().decode(errors="replace").rstrip("\0").split("\0")
            pairs = (folder / "environ").read_bytes().decode(errors="replace").split("\0")
            environment = dict(pair.split("=", 1) for pair in pairs if "=" in pair)
            own_pid = re.search(r"^NSpid:.*?(\d+)$", (folder / "status").read_text(), re.MULTILINE)
            assert own_pid is not None
            ticks = int((folder / "stat").read_text().rpartition(")")[2].split()[19])  # field 22, starttime: proc(5)
            found.append(
                (ticks, int(folder.name), Seen(int(folder.name), int(own_pid[1]), " ".join(words), environment))
            )
    return [seen for *_, seen in sorted(found, key=lambda each: each[:2])]
