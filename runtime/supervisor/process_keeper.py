"""Run the keeper, a small process which ensures that none of the job's processes outlives the supervisor or launcher.

supervisor ── keeper ── torchrun or spawn ── rank wrappers ── ranks ── their children, daemons included

The keeper adopts all its orphaned descendants. It kills them when the launcher ends or the supervisor dies, even if
SIGKILL killed the supervisor. If the keeper itself is killed, the launcher dies with it, and the supervisor adopts the
rest.
"""

from __future__ import annotations

import os
import signal

from ..system import processes
from ..system.signal_queue import SignalQueue


def start_under_keeper(argv: list[str], output: int, errors: int) -> int:
    """Start the launcher under a keeper, and return the keeper's PID.

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
    processes.become_subreaper()
    processes.die_with_parent(signal.SIGTERM)  # not by SIGKILL, because the keeper must first kill the other processes
    if os.getppid() != supervisor:
        return 1
    try:
        launcher = processes.start_in_own_session(argv, output, errors)
    except OSError as error:
        os.write(errors, f"jobc: cannot start the launcher {argv[0]}: {error.strerror}\n".encode())
        return 127
    status = None
    while status is None:
        arrived, _ = signals.wait(3600)
        if signal.SIGTERM in arrived and os.getppid() != supervisor:  # otherwise, sent to all processes (shutdown)
            status = -signal.SIGTERM
        for pid, code in processes.reap_children():
            if pid == launcher:
                status = code
    processes.kill_descendants(os.getpid())
    return status if status >= 0 else 128 - status
