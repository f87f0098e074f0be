"""Stop a run whose folder this machine can access: write its stop mark, and signal its supervisors on this machine.

In:  a run folder (untrusted).
Out: control/STOP in the folder; signals, sent only to processes that are certainly this run's supervisors.
"""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

from ..system.failure import Failure
from .run import NodeState, Run

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MARK = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_RUN_DIR = b"JOBC_RUN_DIR="


def write_stop_mark(run: Path) -> None:
    """Create control/STOP in a run folder, or set its time to now. Follows no symbolic links. Raises Failure."""
    with contextlib.ExitStack() as stack:
        try:
            (run / "control").mkdir(exist_ok=True)
            folder = os.open(run / "control", _FOLDER)
            stack.callback(os.close, folder)
            mark = os.open("STOP", _MARK, 0o666, dir_fd=folder)
            stack.callback(os.close, mark)
            os.utime(mark)
        except OSError as error:
            hint = "check permissions and free space, or set JOBC_RUN_ROOT to another folder"
            raise Failure(f"cannot write the stop mark in {run}/control: {error.strerror}", hint) from None


def signal_supervisors_here(run: Run, name: str, number: int | None = None) -> list[str]:
    """Send a signal to the run's supervisors on this machine. Return a line for each node that is running elsewhere.

    name: TERM, QUIT or KILL.
    number: rank of the only node to signal, or None for all nodes.
    """
    lines = []
    for node in run.nodes():
        status = run.status_of(node)
        if status == "up" and number in (None, node.number):
            _signal_supervisor(run, node, name)
        elif status == "elsewhere" and number is None:
            lines.append(
                f"node {node.name} is {node.describe_location()}: run jobctl stop there, "
                "or wait until it finds the stop mark"
            )
    return lines


def _signal_supervisor(run: Run, node: NodeState, name: str) -> None:
    """Signal a node's process if it is a supervisor of this run. (The state file could be forged.)"""
    assert node.pid is not None
    with contextlib.suppress(OSError):
        variables = Path(f"/proc/{node.pid}/environ").read_bytes().split(b"\0")
        folder = next((text[len(_RUN_DIR) :] for text in variables if text.startswith(_RUN_DIR)), b"")
        if folder and os.path.samefile(folder, run.path):
            os.kill(node.pid, signal.Signals[f"SIG{name}"])
