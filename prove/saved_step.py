"""A training that is told to end saves the step it has just done, and goes on with the next one."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from jobc.tests.testbed import Shape
from jobc.trainer import checkpoint_store

from .bed import BedJob, cluster, keys
from .campaign import Campaign, expect, k_of_n_by

KINDS = ("SIGTERM with ssh", "time limit with slurm", "SIGTERM with slurm", "time limit with slurm")
SHAPE = Shape(nodes=2, gpus_per_node=0)
DELAY_MS = 20  # of a packet, so that a step takes a while and the machine has time for both hosts
GRACE_S = 10  # more than twice a save and a step, which is checked
OVERRIDES = (
    "nodes=2", "procs=1", "task=digits", "loop.epochs=null", "loop.steps=100000", "checkpoint.every_steps=100000",
    "validation.every_steps=100000", "validation.max_samples=64", "launcher=spawn", f"lifecycle.grace={GRACE_S}s",
    "env.GLOO_SOCKET_IFNAME=eth0",
)  # fmt: skip


def run(number: int, folder: Path) -> dict[str, Any]:
    """The only checkpoint is the one that the end asked for."""
    kind = KINDS[number % len(KINDS)]
    cause, way = kind.rsplit(" with ", 1)
    chance = random.Random(number)
    bed = cluster(SHAPE, folder)
    hosts = ["hosts=node[1-2]"] if way == "ssh" else []
    job = BedJob.make(bed, folder, way, *OVERRIDES, *hosts, *(["time=2m"] if cause == "time limit" else []))
    bed.nodes[1].delay(DELAY_MS)
    job.start()
    after = chance.randint(1, 20)
    job.wait(lambda: len(job.steps()) >= after, f"step {after}")
    if cause == "SIGTERM":
        node = chance.choice((0, 1))
        host = next(host for host in bed.nodes if host.hostname == job.host(node))
        host.run(["kill", "-TERM", keys(job.run / f"state/node_{node:02}")["pid"]], check=True)
        job.wait(lambda: all((job.run / f"exit/0/node_{node:02}").exists() for node in (0, 1)), "the end")
        job.wait(job.is_over, "the end of the job")
        job.start("--resume", job.run.name)
    job.wait(lambda: any(attempt == 1 for attempt, _ in job.steps()), "the first step of the second attempt")
    saved = [checkpoint_store.step_of(path) for path in checkpoint_store.newest_first(job.run / "checkpoints")]
    done, resumed = ([step for attempt, step in job.steps() if attempt == a] for a in (0, 1))
    codes = [(job.run / f"exit/0/node_{node:02}").read_text().split()[0] for node in (0, 1)]
    job("stop.sh", check=True)
    measured = {"kind": kind, "last_step": done[-1], "saved": saved, "resumed_with": resumed[0], "codes": codes}
    expect(resumed[0] == done[-1] + 1, f"step {done[-1]} was the last, step {resumed[0]} came next", **measured)
    expect(saved[-1:] == done[-1:], f"step {done[-1]} was the last, checkpoints are of {saved}", **measured)
    expect(codes == ["75", "75"], f"the nodes ended with {codes}", **measured)
    return measured


CAMPAIGN = Campaign(
    name="saved_step",
    claim="After SIGTERM and after the time limit, the resumed step follows the last one that was done: none is lost.",
    trial=(
        f"trains a classifier on 2 hosts that are {DELAY_MS} ms apart, and never saves by itself. After a step drawn by"
        " the trial's number, one node's supervisor gets SIGTERM, or Slurm's signal ahead of the time limit comes. All"
        " ranks must save the same step and end with 75; Slurm's next attempt, or `submit.sh --resume`, goes on."
    ),
    count=40,
    run=run,
    figure=k_of_n_by("kind"),
)
