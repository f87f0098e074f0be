"""Find processes that a test session started and did not end: by the session's mark in their environment, or by its
temporary folder in their environment or command line, because the test bed's hosts use that folder.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

MARK = "PYTEST_SESSION_OF"  # process ID of the session that started a process
OF_PYTHON = "multiprocessing.resource_tracker"  # ends together with the session
WAIT_S = 10.0
EXEC_S = 0.5  # until a process that is in exec has a command line again; the kernel shows none in between


def mark_session() -> None:
    """Set the session's mark. Called by the controller; the workers of pytest-xdist inherit the mark."""
    os.environ.setdefault(MARK, str(os.getpid()))


def leftovers(folder: Path) -> dict[int, str]:
    """Map process ID to command line for each process of this session that is still running after WAIT_S.

    folder: the session's temporary folder
    """
    time.sleep(EXEC_S)
    deadline = time.monotonic() + WAIT_S
    while (found := _find(folder)) and time.monotonic() < deadline:
        time.sleep(0.2)
    return found


def end(pids: dict[int, str]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _find(folder: Path) -> dict[int, str]:
    mark = f"{MARK}={os.environ[MARK]}\0".encode()
    own = _ancestors()
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            environment = (process / "environ").read_bytes() + b"\0"
            command = (process / "cmdline").read_bytes()
            is_ours = mark in environment or f"{folder}/".encode() in environment + command
            if command and is_ours and int(process.name) not in own and OF_PYTHON.encode() not in command:
                found[int(process.name)] = command.replace(b"\0", b" ").decode(errors="replace").strip()
    return found


def _ancestors() -> set[int]:
    """Return this process and its ancestors, which may have the same words in their command lines."""
    pids, pid = set(), os.getpid()
    while pid > 1 and pid not in pids:
        pids.add(pid)
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return pids
