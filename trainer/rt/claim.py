"""One supervisor for each node of a run: a lock that it holds, and nothing left of the launch before."""

from __future__ import annotations

import errno
import fcntl
import os

from .run_folder import RunFolder


class Refused(Exception):
    """Nothing was started and nothing was touched."""


def claim(run_folder: RunFolder, node: int, ranks: range) -> int:
    """The descriptor of the lock, which is held until all that have it open have ended. Raises Refused, OSError."""
    held = _lock(run_folder, node)
    for rank in ranks:
        run_folder.rank_exit(rank).unlink(missing_ok=True)
        run_folder.rank_state(rank).unlink(missing_ok=True)
    run_folder.node_exit(node).unlink(missing_ok=True)
    return held


def _lock(run_folder: RunFolder, node: int) -> int:
    path = run_folder.node_lock(node)
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno != errno.EWOULDBLOCK:  # a file system without locks: node.sh has looked at the pid
            return lock
        raise Refused(f"run {run_folder.path.name} is live: node {node} has a supervisor") from None
    return lock
