"""A stopped training saves the step that it has just completed, and resumes with the next one."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from jobc.tests.testbed import Shape
from jobc.trainer.checkpoint import store
from jobc.trainer.loop.metrics import read_metrics

from .bed import BedJob, cluster, keys
from .campaign import Campaign, expect, k_of_n_by

KINDS = (
    "SIGTERM with ssh", "SIGTERM with slurm", "time limit with ssh", "time limit with slurm",
    "preemption with slurm", "preemption with slurm",
)  # fmt: skip
# Slurm's own time limit is in minutes. Without GraceTime, Slurm kills a preempted job after KillWait (30 s).
LIMITS = {"time limit with ssh": "time=40s", "time limit with slurm": "time=2m"}
SHAPE = Shape(nodes=2, gpus_per_node=0)
DELAY_MS = 20  # delay of a packet, so that a step takes a while and the machine has time for both hosts
GRACE_S = 10
OVERRIDES = (
    "nodes=2", "procs=1", "task=digits", "loop.epochs=null", "loop.steps=100000", "checkpoint.every_steps=100000",
    "validation.every_steps=100000", "validation.max_samples=64", "launcher=spawn", f"lifecycle.grace={GRACE_S}s",
    "metrics.flush_s=0", "env.GLOO_SOCKET_IFNAME=eth0",
)  # fmt: skip


def run(number: int, folder: Path) -> dict[str, Any]:
    """Run a trial whose only checkpoint is the one that the end requested."""
    kind = KINDS[number % len(KINDS)]
    cause, way = kind.rsplit(" with ", 1)
    chance = random.Random(number)
    bed = cluster(SHAPE, folder)
    hosts = ["hosts=node[1-2]"] if way == "ssh" else []
    job = BedJob.make(bed, folder, way, *OVERRIDES, *hosts, *([LIMITS[kind]] if kind in LIMITS else []))
    bed.nodes[1].delay(DELAY_MS)
    job.start()
    after = chance.randint(1, 20)
    job.wait(lambda: len(job.steps()) >= after, f"step {after}")
    if cause == "SIGTERM":
        node = chance.choice((0, 1))
        host = next(host for host in bed.nodes if host.hostname == job.host(node))
        host.run(["kill", "-TERM", keys(job.run / f"state/node_{node:02}")["pid"]], check=True)
    elif cause == "preemption":
        bed.login.run("srun --partition=urgent --nodes=2 --exclusive sleep 1", check=True)
    if way == "ssh" or cause == "SIGTERM":
        job.wait(lambda: all((job.run / f"exit/0/node_{node:02}").exists() for node in (0, 1)), "the end")
        job.wait(job.is_over, "the end of the job")
        job.start("--resume", job.run.name)
    job.wait(lambda: any(attempt == 1 for attempt, _ in job.steps()), "the first step of the second attempt")
    saved = [store.step_of_folder(path) for path in store.checkpoints_newest_first(job.run / "checkpoints")]
    done, resumed = ([step for attempt, step in job.steps() if attempt == a] for a in (0, 1))
    codes = [(job.run / f"exit/0/node_{node:02}").read_text().split()[0] for node in (0, 1)]
    job("stop", check=True)
    step_and_save_s = slowest_step_and_save(job)
    measured = {
        "kind": kind,
        "step_and_save_s": round(step_and_save_s, 2),
        "last_step": done[-1],
        "saved": saved,
        "resumed_with": resumed[0],
        "codes": codes,
    }
    expect(resumed[0] == done[-1] + 1, f"step {done[-1]} was the last, but step {resumed[0]} came next", **measured)
    expect(saved[-1:] == done[-1:], f"step {done[-1]} was the last, but the checkpoints are of {saved}", **measured)
    expect(codes == ["75", "75"], f"the nodes exited with {codes}", **measured)
    expect(2 * step_and_save_s <= GRACE_S, f"a step and a save took {step_and_save_s:.1f} s", **measured)
    return measured


def slowest_step_and_save(job: BedJob) -> float:
    """Return two durations of the first attempt, in seconds.

    They are its slowest step, and the time from its last step until the checkpoint existed.
    """
    lines = [
        line for line in read_metrics(job.run / "metrics" / "rank_00.jsonl") if "loss" in line and line["attempt"] == 0
    ]
    folder = job.run / "checkpoints" / store.step_folder_name(int(str(lines[-1]["step"])))
    saved_at = max(file.stat().st_mtime for file in folder.iterdir())
    return max(float(str(line["step_s"])) for line in lines) + saved_at - float(str(lines[-1]["time"]))


CAMPAIGN = Campaign(
    name="saved_step",
    claim=(
        "After SIGTERM, the time limit or a preemption, the first resumed step is the one after the last completed"
        " step."
    ),
    trial=(
        f"trains a classifier on 2 hosts whose packets are delayed by {DELAY_MS} ms, and saves only when it is"
        " stopped. After a random step, one node's supervisor receives SIGTERM, or the job reaches its time limit,"
        " or a job in another partition takes its nodes. All ranks must save the same step and exit with 75; then"
        f" Slurm's next attempt, or `jobctl submit --resume`, continues. The grace period, {GRACE_S} s, must be at"
        " least twice as long as the slowest step plus save."
    ),
    count=60,
    run=run,
    figure=k_of_n_by("kind"),
)
