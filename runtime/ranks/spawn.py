"""Launch this node's ranks without torch: start them with torchrun's environment, and stop them together.

Usage: jobctl spawn -- COMMAND…               run COMMAND JOBC_PROCS times
       jobctl spawn --tasks SECONDS -- COMMAND…  run COMMAND once, because srun has started a task for each other rank
       jobctl spawn --task N SECONDS -- COMMAND…  in such a task: COMMAND is task N's rank (tasks.py)
In:    JOBC_NODES JOBC_PROCS JOBC_NODE_RANK JOBC_HEAD_ADDR JOBC_HEAD_PORT JOBC_GRACE_S
       SECONDS  timeout for a node's tasks to start
Out:   the exit code of the first rank that failed, or 0.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from .. import exit_codes
from ..system import processes
from ..system.processes import SignalQueue

if TYPE_CHECKING:
    from .tasks import TaskServer

PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)  # sent to all processes on a machine or in a job
MOST_GRACE_S = 30  # time for ranks to exit after another rank has failed, as in torchrun


def main(argv: list[str]) -> int:
    """Run the ranks and return the exit code. If one exits with 75, the others keep running: all save together."""
    options, command = argv[: argv.index("--")], argv[argv.index("--") + 1 :]
    if options[:1] == ["--task"]:
        from .tasks import run_task  # packed only in jobs with launcher=srun

        return run_task(command, int(options[1]), float(options[2]))
    signals = SignalQueue([*PASSED_ON, signal.SIGCHLD])
    processes.die_with_parent()
    environments = dict(enumerate(rank_environments(os.environ)))
    mine = [0] if options else list(environments)
    variables = [{**os.environ, **environments.pop(rank)} for rank in mine]
    children = {processes.start_in_own_session(command, environ=environ) for environ in variables}
    tasks = None
    if environments:
        from .tasks import TaskServer

        tasks = TaskServer(environments, float(options[1]))
    return wait_for_ranks(children, tasks, signals)


def wait_for_ranks(children: set[int], tasks: TaskServer | None, signals: SignalQueue) -> int:
    """Wait until all ranks have ended. Return the exit code of the first one that failed, or 0.

    children: PIDs of the ranks that this process started.
    """
    failed, deadline = 0, float("inf")
    while children or tasks:
        pause_s = min(max(deadline - time.monotonic(), 0.1), 1 if tasks and tasks.missing else 60)
        arrived, readable = signals.wait(pause_s, *(tasks.descriptors_to_poll() if tasks else ()))
        for number in arrived:
            if number in PASSED_ON:
                _send_signal(children, tasks, number)
        ended = tasks.serve_tasks(readable) if tasks else []
        for pid, status in processes.reap_children():
            children.discard(pid)
            ended.append(status if status >= 0 else exit_codes.CRASHED)
        for status in ended:
            if status not in (exit_codes.DONE, exit_codes.PREEMPTED) and not failed:
                failed = status
                deadline = time.monotonic() + min(int(os.environ["JOBC_GRACE_S"]), MOST_GRACE_S)
                _send_signal(children, tasks, signal.SIGTERM)
        if time.monotonic() > deadline:
            _send_signal(children, tasks, signal.SIGKILL)
    return failed


def rank_environments(node: Mapping[str, str]) -> list[dict[str, str]]:
    nodes, procs, node_rank = (int(node[name]) for name in ("JOBC_NODES", "JOBC_PROCS", "JOBC_NODE_RANK"))
    return [
        {
            "RANK": str(node_rank * procs + local_rank),
            "LOCAL_RANK": str(local_rank),
            "WORLD_SIZE": str(nodes * procs),
            "LOCAL_WORLD_SIZE": str(procs),
            "GROUP_RANK": str(node_rank),
            "MASTER_ADDR": node["JOBC_HEAD_ADDR"],
            "MASTER_PORT": node["JOBC_HEAD_PORT"],
        }
        for local_rank in range(procs)
    ]


def _send_signal(children: set[int], tasks: TaskServer | None, number: int) -> None:
    for pid in children:  # they are not reaped yet, so their PIDs cannot have been reused
        os.kill(pid, number)
    if tasks:
        tasks.send_signal(number)
