"""Shut down process groups safely: Gloo's threads need the GIL to release a message, and may do so late (torch 2.13).

Two things can go wrong. First, DDP's destructor holds the GIL while Gloo's destructor waits for its threads, which is a
deadlock. Second, a finalizing interpreter terminates any thread that requests the GIL (CPython 3.11,
PyThread_exit_thread). If that happens to one of Gloo's threads, the rank aborts with the message "terminate called
without an active exception".
"""

import ctypes
import time
from contextlib import suppress
from pathlib import Path

from torch.distributed.distributed_c10d import _world

POLL_S, POLLS = 0.005, 3  # poll interval; number of consecutive polls in which no thread may be working
LONGEST_S = 5.0  # the threads have only microseconds of work left, but the machine may be busy


def keep_groups_alive() -> None:
    """Hold a permanent reference to every process group, so that they stay alive until the process exits."""
    for group in list(_world.pg_map):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(group))


def wait_for_gloo_threads() -> None:
    """Wait until Gloo's threads sleep, as they do until the next message. Send nothing after this call."""
    deadline, idle_polls = time.monotonic() + LONGEST_S, 0
    while idle_polls < POLLS and time.monotonic() < deadline:
        time.sleep(POLL_S)
        idle_polls = 0 if _has_working_thread() else idle_polls + 1


def _has_working_thread() -> bool:
    for thread in Path("/proc/self/task").iterdir():
        with suppress(OSError):  # the thread has ended in the meantime
            name, _, fields = (thread / "stat").read_text().partition("(")[2].rpartition(")")
            if "gloo" in name and fields.split()[0] != "S":
                return True
    return False
