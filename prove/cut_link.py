"""A node's link is cut. If it is back after five seconds, nothing happens; if it stays cut, an error names the node."""

from __future__ import annotations

import random
import re
import time
from pathlib import Path
from typing import Any

from .bed import BedJob, cluster, text
from .campaign import Campaign, expect, k_of_n_by
from .lost_node import END_S, OVERRIDES, SHAPE, STEP_TIMEOUT_S

KINDS = [(way, seconds) for seconds in (5, None) for way in ("slurm", "ssh")]
STEPS = 400  # enough steps for the training to be still running when the link comes back
TRAINING = (*OVERRIDES, f"loop.steps={STEPS}", "checkpoint.every_steps=100", "lifecycle.max_requeues=0")


def run(number: int, folder: Path) -> dict[str, Any]:
    way, seconds = KINDS[number % len(KINDS)]
    kind = f"for {seconds} s with {way}" if seconds else f"for good with {way}"
    chance = random.Random(number)
    bed = cluster(SHAPE, folder)
    expected = reference(folder) if seconds else ""
    job = BedJob.make(bed, folder, way, *TRAINING)
    job.start()
    after = chance.randint(10, STEPS // 4)
    job.wait(lambda: bool(job.steps()) and job.steps()[-1][1] >= after, f"step {after}")
    victim = next(host for host in bed.nodes if host.hostname == job.host(1))
    victim.cut_link()
    cut = time.monotonic()
    if seconds:
        time.sleep(seconds)
        victim.restore_link()
        done = job.steps()[-1][1]
        expect(done < STEPS, "the training ended before the link came back", kind=kind)
        job.wait((job.run / "final" / "weights.pt").exists, "the end of the training")
        job.wait(job.is_over, "the end of the job")
        expect(job.weights() == expected, "the weights differ from those of an undisturbed run", kind=kind)
        expect({attempt for attempt, _ in job.steps()} == {0}, "the job was restarted", kind=kind)
        return {"kind": kind, "after_step": done}
    job.wait(lambda: text(job.run / "exit" / "0" / "node_00") != "", "the other node to give up")
    ended_s = round(time.monotonic() - cut, 1)
    first = job.run / "exit" / "0" / "first"
    job.wait(lambda: victim.hostname in text(first), f"a reason that names {victim.hostname}")
    # not earlier: whether the other node responds is checked only after a node has recorded its end
    victim.restore_link()
    job.wait(job.is_over, "the end of the job")
    status = job("status")[1]
    measured = {"kind": kind, "ended_s": ended_s, "said": re.findall(r"reason: (.*)", status)}
    expect(f"({victim.hostname})" in status, f"jobctl status does not name {victim.hostname}", **measured)
    expect(ended_s <= END_S, f"the others ended after {ended_s} s", **measured)
    job.wait(
        lambda: not job.nodes_with_processes(), "the end of all processes", 30
    )  # supervisors exit after they have reported this
    return measured


def reference(folder: Path) -> str:
    """Return the hash of the weights of an undisturbed training, which runs once per call of the campaign."""
    cache = folder.parent / "whole.txt"
    if not cache.exists():
        job = BedJob.make(cluster(SHAPE, folder), folder.parent / "whole", "slurm", *TRAINING)
        job("submit", "--wait", check=True)
        cache.write_text(job.weights())
    return cache.read_text()


CAMPAIGN = Campaign(
    name="cut_link",
    claim=(
        f"A link that is cut for 5 s does no harm. If it is cut permanently, the other nodes exit within {END_S} s,"
        " and jobctl status names the unreachable node."
    ),
    trial=(
        f"trains a classifier on 2 hosts through Slurm or ssh, with process_group.step_timeout_s={STEP_TIMEOUT_S}."
        " After a random step, one host's link is cut. If it is cut for 5 s, the training must continue without"
        " another attempt and reach the weights of an undisturbed run. If it is cut permanently, the other host"
        " must exit and report why."
    ),
    count=20,
    run=run,
    figure=k_of_n_by("kind"),
)
