"""Nodes' clocks are an hour off, first in one direction, then in the other: the newest checkpoint is the latest
step's.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jobc.tests.testbed import Host, Shape
from jobc.trainer.checkpoint import store
from jobc.trainer.loop.metrics import read_metrics

from .bed import BedJob, cluster, keys, losses
from .campaign import Campaign, expect, k_of_n_by

HOUR_S = 3600
PATIENCE_S = 900  # for a training on a busy machine
STEPS, EVERY = 60, 5
SHAPE = Shape(nodes=2, gpus_per_node=0)
KINDS = ("ssh", "slurm")
OVERRIDES = (
    "nodes=2", "procs=1", "task=digits", "loop.epochs=null", f"loop.steps={STEPS}", f"checkpoint.every_steps={EVERY}",
    "checkpoint.keep=4", "launcher=spawn", "metrics.flush_s=0", "env.GLOO_SOCKET_IFNAME=eth0", "lifecycle.grace=5s",
    "validation.every_steps=1000", "validation.max_samples=64",
)  # fmt: skip
PYTHON = """\
#!/bin/bash
# Every process of a node, from its supervisor on, has the clock of the node.
export LD_PRELOAD={library} SKEW_S=$(cat {skews}/$(hostname))
exec {python} "$@"
"""


def run(number: int, folder: Path) -> dict[str, Any]:
    """Skew the clock of rank 0's node by an hour: ahead in the first attempt, behind in the second, or the reverse.

    Rank 0 saves the checkpoints. Their file times are set as on that node, because the test hosts share one kernel.
    """
    chance, way = random.Random(number), KINDS[number % len(KINDS)]
    bed, undisturbed = cluster(SHAPE, folder), reference(folder, way)
    interpreter = skewed_python(folder)
    first_skew = chance.choice((HOUR_S, -HOUR_S))
    set_skews(folder, bed.nodes, first_skew)
    job = BedJob.make(bed, folder, way, *OVERRIDES, *hosts_of(way), f"python.interpreter={interpreter}")
    job.start()
    after = chance.randrange(2 * EVERY, STEPS - 15)
    job.wait(lambda: len(job.steps()) >= after, f"step {after}", PATIENCE_S)
    rank = chance.choice((0, 1))
    host = next(host for host in bed.nodes if host.hostname == job.host(rank))
    host.run(["pkill", "-KILL", "-P", keys(job.run / f"state/rank_{rank:02}")["pid"]], check=True)
    job.wait(lambda: all((job.run / f"exit/0/node_{node:02}").exists() for node in (0, 1)), "the end", PATIENCE_S)
    job.wait(job.is_over, "the end of the job", PATIENCE_S)
    checkpoints = store.checkpoints_newest_first(job.run / "checkpoints")
    saved = max(map(store.step_of_folder, checkpoints))
    for age, checkpoint in enumerate(sorted(checkpoints, key=store.step_of_folder)):
        make_older(checkpoint, HOUR_S * (age + 1))  # the newest has the oldest files
    set_skews(folder, bed.nodes, -first_skew)
    job("submit", *waits(way), "--resume", job.run.name, check=True, timeout_s=PATIENCE_S)
    lines = [line for line in read_metrics(job.run / "metrics" / "rank_00.jsonl") if "loss" in line]
    times = {attempt: [float(str(line["time"])) for line in lines if line["attempt"] == attempt] for attempt in (0, 1)}
    resumed = next(step for attempt, step in job.steps() if attempt == 1)
    measured: dict[str, Any] = {"kind": way, "skew_s": first_skew, "saved": saved, "resumed_with": resumed}
    measured["clock_went_s"] = round(times[1][0] - times[0][-1])
    expect(abs(measured["clock_went_s"] + 2 * first_skew) < HOUR_S / 2, "the clocks were not skewed", **measured)
    expect(resumed == saved + 1, f"step {saved} was saved, but step {resumed} came next", **measured)
    expect(losses(job.run) == undisturbed, "losses differ from those of an undisturbed run", **measured)
    return measured


def reference(folder: Path, way: str) -> list[object]:
    """Return the losses of an undisturbed training with correct clocks, which runs once per call of the campaign."""
    cache = folder.parent / f"undisturbed_{way}.json"
    if not cache.exists():
        job_folder = folder.parent / f"undisturbed_{way}"
        job = BedJob.make(cluster(SHAPE, folder), job_folder, way, *OVERRIDES, *hosts_of(way))
        job("submit", *waits(way), check=True, timeout_s=PATIENCE_S)
        cache.write_text(json.dumps(losses(job.run)))
    return list(json.loads(cache.read_text()))


def waits(way: str) -> list[str]:
    """Return the option that makes jobctl submit wait. With ssh, it waits without an option."""
    return ["--wait"] if way == "slurm" else []


def hosts_of(way: str) -> tuple[str, ...]:
    return ("hosts=node[1-2]",) if way == "ssh" else ()


def skewed_python(folder: Path) -> Path:
    """Return an interpreter for python.interpreter that uses a skewed clock."""
    library, path = folder / "skewed_clock.so", folder / "python"
    source = Path(__file__).with_name("skewed_clock.c")
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", library, source], check=True)
    path.write_text(PYTHON.format(library=library, skews=folder / "skews", python=sys.executable))
    path.chmod(0o755)
    return path


def set_skews(folder: Path, hosts: Sequence[Host], first: int) -> None:
    """Set the skews of both hosts, in opposite directions."""
    (folder / "skews").mkdir(exist_ok=True)
    for host, skew in zip(hosts, (first, -first), strict=True):
        (folder / "skews" / host.hostname).write_text(f"{skew}\n")


def make_older(checkpoint: Path, seconds: int) -> None:
    for path in (checkpoint, *checkpoint.iterdir()):
        moment = path.stat().st_mtime - seconds
        os.utime(path, (moment, moment))


CAMPAIGN = Campaign(
    name="skewed_clocks",
    claim=(
        "Node clocks that are an hour off, and jump by two hours between attempts, do not change where a run resumes."
    ),
    trial=(
        f"trains a classifier for {STEPS} steps on 2 hosts, through ssh or Slurm. A preloaded library sets one"
        " host's wall clock an hour ahead and the other's an hour behind. After a random step, one rank is killed,"
        " and the clocks change sides. The files of newer checkpoints get older times, and `submit --resume`"
        " continues. It must start after the last saved step, and end with losses that are bit-identical to those"
        " of a run with correct clocks."
    ),
    count=10,
    run=run,
    figure=k_of_n_by("kind"),
)
