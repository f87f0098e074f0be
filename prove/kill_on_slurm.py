"""One rank of a Slurm job receives SIGKILL: the resumed job has the same losses and weights as an uninterrupted one."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jobc.tests.testbed import Shape

from .bed import BedJob, cluster, keys, losses
from .campaign import Campaign, Line, expect, k_of_n_by
from .job import MICRO

NODES = 2
PROCS = (1, 2)  # ranks per node, in turns
STEPS = 40
PATIENCE_S = 900  # for a training on a busy machine
SHAPE = Shape(nodes=NODES, gpus_per_node=0)
OVERRIDES = (
    *MICRO, f"nodes={NODES}", f"loop.steps={STEPS}", "checkpoint.every_steps=4", "validation.every_steps=20",
    "env.GLOO_SOCKET_IFNAME=eth0", "lifecycle.grace=5s",
)  # fmt: skip


def run(number: int, folder: Path) -> dict[str, Any]:
    chance, procs = random.Random(number), PROCS[number % len(PROCS)]
    bed, expected = cluster(SHAPE, folder), uninterrupted(folder, procs)
    job = BedJob.make(bed, folder, "slurm", *OVERRIDES, f"procs={procs}")
    job.start()
    after, rank = chance.randrange(1, STEPS - 5), chance.randrange(NODES * procs)
    job.wait(lambda: len(job.steps()) >= after, f"step {after}", PATIENCE_S)
    host = next(host for host in bed.nodes if host.hostname == job.host(rank // procs))
    struck = host.run(["pkill", "-KILL", "-P", keys(job.run / f"state/rank_{rank:02}")["pid"]]).returncode == 0
    began = time.monotonic()
    job.wait(lambda: all((job.run / f"exit/0/node_{node:02}").exists() for node in range(NODES)), "the end", PATIENCE_S)
    measured: dict[str, Any] = {"kind": kind_of(procs), "rank": rank, "ended_s": round(time.monotonic() - began, 2)}
    measured["codes"] = [(job.run / f"exit/0/node_{node:02}").read_text().split()[0] for node in range(NODES)]
    measured["after_step"] = job.steps()[-1][1]
    job.wait(job.is_over, "the end of the job", PATIENCE_S)
    expect(struck and not (job.run / "final").exists(), "it ended before it could be killed", **measured)
    job("submit", "--wait", "--resume", job.run.name, check=True, timeout_s=PATIENCE_S)
    measured["attempts"] = sorted({attempt for attempt, _ in job.steps()})
    got = result(job)
    measured["sha256"] = got["sha256"]
    expect(measured["attempts"] == [0, 1], f"attempts that trained: {measured['attempts']}", **measured)
    expect(got["losses"] == expected["losses"], "losses differ from those of the uninterrupted job", **measured)
    expect(got["sha256"] == expected["sha256"], "the final weights differ", **measured)
    return measured


def kind_of(procs: int) -> str:
    return f"one of {NODES * procs} ranks"


def uninterrupted(folder: Path, procs: int) -> dict[str, Any]:
    """Return the result of the same job without disturbance, computed once per campaign call."""
    cache = folder.parent / f"uninterrupted_{procs}.json"
    if not cache.exists():
        job_folder = folder.parent / f"uninterrupted_{procs}"
        job = BedJob.make(cluster(SHAPE, folder), job_folder, "slurm", *OVERRIDES, f"procs={procs}")
        job("submit", "--wait", check=True, timeout_s=PATIENCE_S)
        cache.write_text(json.dumps(result(job)))
    return dict(json.loads(cache.read_text()))


def result(job: BedJob) -> dict[str, Any]:
    return {"losses": losses(job.run), "sha256": job.weights()}


def figure(lines: Sequence[Line]) -> str:
    slowest = max(line.get("ended_s", 0) for line in lines)
    return f"{k_of_n_by('kind')(lines)}; both nodes exited at most {slowest:.1f} s after the rank"


CAMPAIGN = Campaign(
    name="kill_on_slurm",
    claim=(
        "A Slurm job in which one rank is killed, and which is then resumed, ends with the losses and weights of an"
        " uninterrupted job."
    ),
    trial=(
        f"trains a small GPT with dropout for {STEPS} steps on 2 hosts of the test bed, with 1 or 2 ranks each,"
        " started by Slurm and torchrun. During or after a random step, SIGKILL hits one rank. Both nodes must"
        " exit, and `jobctl submit --resume` must continue the run as the next attempt. The losses of all steps"
        " must be bit-identical to those of an uninterrupted job, and the sha256 of the final weights must be"
        " equal."
    ),
    count=100,
    run=run,
    figure=figure,
)
