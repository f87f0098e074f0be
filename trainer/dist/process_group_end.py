"""The end of process groups: Gloo's threads need the GIL to let go of a message, and may be late (torch 2.13).

Two things go wrong when they are. The destructor of Gloo waits for its threads; that of DDP, which calls it, does so
with the GIL held, and the rank hangs. And an interpreter that takes itself apart gives nobody the GIL any more: it ends
the thread that asks for it (CPython 3.11, PyThread_exit_thread), whose stack does not bear that, and the rank is
aborted: "terminate called without an active exception".
"""

import ctypes
import time
from contextlib import suppress
from pathlib import Path

from torch.distributed.distributed_c10d import _world

LOOK_S, LOOKS = 0.005, 3  # between two looks at the threads; how many in a row see none at work
LONGEST_S = 5.0  # such a thread has microseconds of work left, on however busy a machine


def keep_groups() -> None:
    """Keep every process group alive until the process exits, with a permanent reference."""
    for group in list(_world.pg_map):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(group))


def wait_for_threads() -> None:
    """Until Gloo's threads have let go of all messages, and need the GIL no more. Nothing may be sent any longer.

    A thread that is done waits for another message; one that wants the GIL gets it while this one sleeps.
    """
    deadline, at_rest = time.monotonic() + LONGEST_S, 0
    while at_rest < LOOKS and time.monotonic() < deadline:
        time.sleep(LOOK_S)
        at_rest = 0 if _is_one_at_work() else at_rest + 1


def _is_one_at_work() -> bool:
    for thread in Path("/proc/self/task").iterdir():
        with suppress(OSError):  # it has ended meanwhile
            name, _, fields = (thread / "stat").read_text().partition("(")[2].rpartition(")")
            if "gloo" in name and fields.split()[0] != "S":
                return True
    return False
