"""jobctl stop --now over ssh on a loaded machine: every node records its end, and the run can be removed at once."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from jobc.tests.testbed import Shape

from .bed import BedJob, cluster, keys
from .campaign import Campaign, Line, expect, k_of_n_by

NODES = 3
SHAPE = Shape(nodes=NODES, gpus_per_node=0)
KINDS = ("just started", "in training")
BUSY = 4  # processes, each of which would use a whole core
ENDS_WITHIN_S = 15  # jobctl stop kills the supervisors that have not ended by then


def run(number: int, folder: Path) -> dict[str, Any]:
    kind = KINDS[number % len(KINDS)]
    bed = cluster(SHAPE, folder)
    job = BedJob.make(
        bed, folder, "ssh", f"nodes={NODES}", f"hosts=node[1-{NODES}]", "procs=1", "launcher=spawn",
        command=("bed_program.py", "ignores"),
    )  # fmt: skip
    job.start()
    if kind == KINDS[1]:
        job.wait_for_rank_words(NODES, "up")
    with busy():
        time.sleep(random.Random(number).uniform(0, 1))
        stop_time = time.monotonic()
        code, output = job("stop", "--now")
        measured: dict[str, Any] = {"kind": kind, "code": code, "stop_s": round(time.monotonic() - stop_time, 1)}
        states = [keys(job.run / f"state/node_{node:02}") for node in range(NODES)]
        _, status = job("status")
        _, cleaned = job("clean", "--keep", "0", "--yes")
    measured["recorded"] = sum("ended" in state for state in states)
    expect(code == 0, f"jobctl stop --now exited with {code}: {output[-500:]}", **measured)
    expect(measured["recorded"] == NODES, f"{measured['recorded']} of {NODES} nodes recorded their end", **measured)
    expect(measured["stop_s"] < ENDS_WITHIN_S, f"jobctl stop --now took {measured['stop_s']} s", **measured)
    expect("stopped by jobctl stop" in status, f"jobctl status: {status[-500:]}", **measured)
    expect(
        "removed" in cleaned and not list(folder.glob("runs/*/*/state")), f"jobctl clean: {cleaned[-500:]}", **measured
    )
    job.wait(lambda: not job.nodes_with_processes(), "the end of all processes", 60)
    measured["last_process_s"] = round(time.monotonic() - stop_time, 1)
    return measured


@contextmanager
def busy() -> Iterator[None]:
    """Put load on this machine: processes that compute endlessly."""
    processes = [subprocess.Popen([sys.executable, "-I", "-S", "-c", "while True: pass"]) for _ in range(BUSY)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def figure(lines: Sequence[Line]) -> str:
    longest = max((line.get("stop_s", 0) for line in lines), default=0)
    return f"{k_of_n_by('kind')(lines)}; jobctl stop --now took at most {longest} s"


CAMPAIGN = Campaign(
    name="stop_now",
    claim=(
        "jobctl stop --now over ssh ends a run on all its nodes within seconds, even on a loaded machine: each node"
        " records its end, jobctl status reports the run as stopped, and jobctl clean removes it."
    ),
    trial=(
        f"starts a program that ignores SIGTERM on {NODES} nodes over ssh, and calls jobctl stop --now when the"
        f" nodes have just started, or when all ranks have met, while {BUSY} other processes keep the machine busy."
        f" The command must exit with 0 within {ENDS_WITHIN_S} s, each node's state must contain `ended`, and jobctl"
        " clean must remove the run immediately."
    ),
    count=200,
    run=run,
    figure=figure,
)
