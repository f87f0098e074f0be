"""Ensure that each of a run's nodes has only one supervisor, which holds a lock and removes files of earlier starts."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import time

from ..run_folder.removal import remove_folder
from ..run_folder.run_folder import RunFolder, read_small_file
from ..system.failure import Failure
from .verdict import find_unplanned_ranks

LINGER_S = 60.0  # a bit longer than a supervisor waits for its peers after recording its end (links.py)
GLANCE_S = 1.0  # a verb that reads a node's state holds the lock for a moment (run_folder/run.py)
PAUSE_S = 0.05


def lock_node(run_folder: RunFolder, node: int, ranks: range) -> int:
    """Lock the node, delete files from earlier starts, and return the lock's descriptor.

    The lock is held until every process that has the file open has ended. Raises OSError, or Failure if another
    supervisor holds the lock; then, nothing was changed.
    """
    held = _acquire_lock(run_folder, node)
    _delete_old_files(RunFolder(run_folder.path, run_folder.attempt - 1), node, ranks)
    for rank in [*ranks, *find_unplanned_ranks(run_folder, node, ranks)]:
        run_folder.rank_exit_file(rank).unlink(missing_ok=True)
        run_folder.rank_state_file(rank).unlink(missing_ok=True)
    run_folder.node_exit_file(node).unlink(missing_ok=True)
    return held


def _delete_old_files(before: RunFolder, node: int, ranks: range) -> None:
    """Delete files that only the previous attempt's supervisors read, because sites limit the number of files."""
    for rank in ranks:
        before.rank_exit_file(rank).unlink(missing_ok=True)
    if node == 0:
        before.first_stop_file.unlink(missing_ok=True)
        before.mpi_daemon.unlink(missing_ok=True)
        for restart in before.first_stop_file.parent.glob("restart_*"):
            with contextlib.suppress(OSError):
                remove_folder(restart)


def _acquire_lock(run_folder: RunFolder, node: int) -> int:
    path = run_folder.path / f"state/node_{node:02}.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    with contextlib.suppress(OSError):
        os.fchmod(lock, 0o600)  # anyone who can read a file can lock it
    began = time.monotonic()
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return lock
        except OSError as error:
            if error.errno != errno.EWOULDBLOCK:  # the file system has no locks, but node.py has checked the PID
                return lock
        most_s = LINGER_S if _has_ended(run_folder, node) else GLANCE_S
        if time.monotonic() - began > most_s:
            raise Failure(f"run {run_folder.path.name} is live: node {node} has a supervisor")
        time.sleep(PAUSE_S)


def _has_ended(run_folder: RunFolder, node: int) -> bool:
    """Return whether the supervisor has recorded that it ended, and only waits for its peers to learn that."""
    state = read_small_file(run_folder.node_state_file(node))
    return state is not None and "ended" in state[1]
