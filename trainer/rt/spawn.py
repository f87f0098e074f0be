"""Launcher without torch: starts the ranks of this node with torchrun's environment and ends them together.

Usage  python -I -S spawn.py -- COMMAND…      COMMAND is run JOBC_PROCS times
In     JOBC_NODES JOBC_PROCS JOBC_NODE_RANK JOBC_HEAD_ADDR JOBC_HEAD_PORT JOBC_GRACE_S
Out    the exit code of the rank that failed first, or 0
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

if not __package__:  # started by path: find the sibling modules, whatever PYTHONPATH holds
    sys.path.insert(0, str(Path(__file__).absolute().parents[1]))
    __package__ = "rt"

from . import exit_codes, processes
from .signal_queue import SignalQueue

PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)  # when all processes of a machine or a job get them
MOST_GRACE_S = 30  # for the ranks that are ended because another one failed, as in torchrun


def main(argv: list[str]) -> int:
    """The exit code. A rank that ends with 75 has saved in agreement with the others: they may finish."""
    command = argv[1:] if argv[:1] == ["--"] else argv
    signals = SignalQueue([*PASSED_ON, signal.SIGCHLD])
    processes.die_with_parent()
    running = {processes.start(command, environ={**os.environ, **rank}) for rank in ranks(os.environ)}
    failed, deadline = 0, float("inf")
    while running:
        arrived, _ = signals.wait(min(deadline - time.monotonic(), 60))
        for number in arrived:
            if number in PASSED_ON:
                _send(running, number)
        for pid, status in processes.reap():
            running.discard(pid)
            if status not in (exit_codes.DONE, exit_codes.PREEMPTED) and not failed:
                failed = status if status > 0 else exit_codes.CRASHED
                deadline = time.monotonic() + min(int(os.environ["JOBC_GRACE_S"]), MOST_GRACE_S)
                _send(running, signal.SIGTERM)
        if time.monotonic() > deadline:
            _send(running, signal.SIGKILL)
    return failed


def ranks(node: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """The environment of each rank of this node."""
    nodes, procs, node_rank = (int(node[name]) for name in ("JOBC_NODES", "JOBC_PROCS", "JOBC_NODE_RANK"))
    for local_rank in range(procs):
        yield {
            "RANK": str(node_rank * procs + local_rank),
            "LOCAL_RANK": str(local_rank),
            "WORLD_SIZE": str(nodes * procs),
            "LOCAL_WORLD_SIZE": str(procs),
            "GROUP_RANK": str(node_rank),
            "MASTER_ADDR": node["JOBC_HEAD_ADDR"],
            "MASTER_PORT": node["JOBC_HEAD_PORT"],
        }


def _send(pids: set[int], number: int) -> None:
    for pid in pids:  # our own children, not reaped yet: the numbers cannot have been used again
        os.kill(pid, number)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
