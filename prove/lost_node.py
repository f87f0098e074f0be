"""A node goes silent in the middle of a training on Slurm: its cable is pulled, so no packet reports the loss."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jobc.tests.testbed import Shape

from .bed import BedJob, cluster
from .campaign import Campaign, Line, expect, k_of_n_by

STEP_TIMEOUT_S, END_S = 20, 35
STEPS = 40
SHAPE = Shape(nodes=3, gpus_per_node=0, slurm={"SlurmdTimeout": "300"})
OVERRIDES = (
    "nodes=2", "procs=1", "task=digits", "loop.epochs=null", f"loop.steps={STEPS}", "checkpoint.every_steps=1",
    "launcher=spawn", f"process_group.step_timeout_s={STEP_TIMEOUT_S}", "lifecycle.grace=5s",
    "metrics.flush_s=0", "env.GLOO_SOCKET_IFNAME=eth0", "validation.every_steps=1000", "validation.max_samples=64",
)  # fmt: skip
LOST_S = 900  # Slurm needs up to SlurmdTimeout and two of its checks to give up on the node of the batch script


def run(number: int, folder: Path) -> dict[str, Any]:
    """Run a trial. Every tenth trial loses the node that runs the batch script; the others lose the other node."""
    bed = cluster(SHAPE, folder)
    undisturbed = reference(folder)
    job = BedJob.make(bed, folder, "slurm", *OVERRIDES)
    job.start()
    after = random.Random(number).randint(2, STEPS // 2)
    job.wait(lambda: len(job.steps()) >= after, f"step {after}")
    workers_by_name = {host.hostname: host for host in bed.nodes}
    victim = 0 if number % 10 == 9 else 1
    lost, survivor = (workers_by_name[job.host(node)] for node in (victim, 1 - victim))
    lost.cut_link()
    cut = time.monotonic()
    time.sleep(random.Random(number).uniform(0, 2))
    lost.power_off()
    job.wait(lambda: not survivor.processes(r"rank\.py|jobc_trainer"), "the end of the others")
    measured: dict[str, Any] = {"kind": "first node" if victim == 0 else "another node"}
    measured |= {"after_step": job.steps()[-1][1], "others_ended_s": round(time.monotonic() - cut, 1)}
    job.wait((job.run / "final" / "weights.pt").exists, "the end on the spare", LOST_S)
    measured["finished_s"] = round(time.monotonic() - cut, 1)
    attempts = sorted({attempt for attempt, _ in job.steps()})
    hosts = {job.host(node) for node in (0, 1)}
    job.wait(lambda: job.state() == "COMPLETED", "the end of the job")
    expect(lost.hostname not in hosts, f"it continued on the lost node: {hosts}", **measured)
    expect(job.weights() == undisturbed, "the weights differ from those of an undisturbed run", **measured)
    expect(attempts == [0, 1], f"attempts that trained: {attempts}", **measured)
    seconds = measured["others_ended_s"]
    expect(seconds <= END_S, f"the others exited after {seconds} s", **measured)
    return measured


def reference(folder: Path) -> str:
    """Return the hash of the weights of an undisturbed training, which runs once per call of the campaign."""
    cache = folder.parent / "undisturbed.txt"
    if not cache.exists():
        job = BedJob.make(cluster(SHAPE, folder), folder.parent / "undisturbed", "slurm", *OVERRIDES)
        job("submit", "--wait", check=True)
        cache.write_text(job.weights())
    return cache.read_text()


def figure(lines: Sequence[Line]) -> str:
    ended, finished = ([line.get(key, 0) for line in lines] for key in ("others_ended_s", "finished_s"))
    return (
        f"{k_of_n_by('kind')(lines)} lost; the others exited within {max(ended):.0f} s,"
        f" and the training ended after {min(finished):.0f} to {max(finished):.0f} s"
    )


CAMPAIGN = Campaign(
    name="lost_node",
    claim=(
        f"When a node of a Slurm job stops responding, the others exit within {END_S} s, and the job moves to a"
        " spare node and reaches the weights of an undisturbed run."
    ),
    trial=(
        f"trains a classifier on 2 of 3 hosts for {STEPS} steps, with process_group.step_timeout_s={STEP_TIMEOUT_S}"
        " and SlurmdTimeout=300. After a random step, one host's link is cut, and up to 2 s later, its power. In"
        " one trial of ten, this is the host of the batch script, which only Slurm can replace, after"
        " SlurmdTimeout."
    ),
    count=10,
    run=run,
    figure=figure,
)
