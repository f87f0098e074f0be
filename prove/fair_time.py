"""Measure a command's own time: its CPU seconds, plus the seconds in which it waits. Its descendants are included.

Waiting means that all of these processes wait for a pipe, a lock, a disk or `sleep`. Time in which one of them is ready
to run while the machine runs other processes does not count, so a limit on this time also holds on a busy machine.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

LOOK_S = 0.1
MOST_WALL_S = 300.0
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Process:
    """A line of /proc/PID/stat: state, parent, and CPU seconds, including those of children that were waited for."""

    pid: int
    state: str
    parent: int
    cpu_s: float


class TookTooLong(Exception):
    """Raised after the command was killed; `output` is what it had printed."""

    def __init__(self, output: str) -> None:
        super().__init__("took too long")
        self.output = output


def run(command: Sequence[str], limit_s: float, log: Path, **how: object) -> tuple[int, str, float]:
    """Return the exit code, the output and the fair seconds. Raises TookTooLong.

    log: file that receives the output
    how: passed to Popen
    """
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True, **how
        )  # type: ignore[call-overload]
        began = looked = time.monotonic()
        waited_s, cpu_s = 0.0, 0.0
        while process.poll() is None:
            time.sleep(LOOK_S)
            now, tree = time.monotonic(), descendants(process.pid)
            cpu_s = max(cpu_s, sum(member.cpu_s for member in tree))
            if all(member.state != "R" for member in tree):
                waited_s += now - looked
            looked = now
            if waited_s + cpu_s > limit_s or now - began > MOST_WALL_S:
                for member in tree:
                    kill(member.pid)
                process.wait()
                raise TookTooLong(text(log))
    return process.returncode, text(log), waited_s + cpu_s


def text(log: Path) -> str:
    return log.read_bytes().decode(errors="replace")


def kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def descendants(root: int) -> list[Process]:
    """Return the process `root` and all its descendants."""
    children: dict[int, list[Process]] = {}
    members = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and (process := read(int(folder.name))) is not None:
            children.setdefault(process.parent, []).append(process)
            if process.pid == root:
                members.append(process)
    for process in members:
        members += children.get(process.pid, [])
    return members


def read(pid: int) -> Process | None:
    """Return the state of a process, or None if it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(") ")[2].split()
    except OSError:
        return None
    ticks = sum(int(field) for field in fields[11:15])  # utime, stime, cutime, cstime
    return Process(pid, fields[0], int(fields[1]), ticks / TICKS_PER_S)
