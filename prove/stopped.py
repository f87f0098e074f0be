"""A run that is stopped by hand ends on all its nodes, and nothing restarts it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from jobc.tests.testbed import Shape

from .bed import BedJob, cluster, keys
from .campaign import Campaign, Line, expect, k_of_n_by

SHAPE = Shape(nodes=3, gpus_per_node=0)
GRACE_S = 4
MORE_S = 5  # beyond the grace period, for processes that are not ranks: supervisors, ssh, Slurm
QUIET_S = 8  # how long nothing may start; a requeued job on the test bed starts after 6 s
PROGRAMS = ("saves", "ignores")


def stop_script(job: BedJob) -> None:
    job("stop", check=True)


def scancel(job: BedJob) -> None:
    job.cluster.login.run(["scancel", job.job_id], check=True)


def ctrl_c(job: BedJob) -> None:
    """Send SIGINT as a terminal does: to the foreground group of submit."""
    assert job.follower is not None
    submits = job.cluster.login.processes("jobctl submit")
    oldest = next(process for process in submits if str(job.project) in process.command)
    job.cluster.login.run(["kill", "-INT", "--", f"-{oldest.own_pid}"], check=True)
    job.follower.wait(60)


def kill_head(job: BedJob) -> None:
    """Send SIGTERM to node 0's supervisor, because without a scheduler there is no job to cancel."""
    host = next(host for host in job.cluster.nodes if host.hostname == job.host(0))
    host.run(["kill", "-TERM", keys(job.run / "state/node_00")["pid"]], check=True)


KINDS: tuple[tuple[str, str, Callable[[BedJob], None]], ...] = (
    ("ssh", "stop", stop_script), ("slurm", "stop", stop_script), ("pdsh", "stop", stop_script),
    ("slurm", "scancel", scancel), ("ssh", "Ctrl-C", ctrl_c), ("slurm", "scancel", scancel),
    ("clush", "stop", stop_script), ("ssh", "kill", kill_head),
)  # fmt: skip


def run(number: int, folder: Path) -> dict[str, Any]:
    way, how, stop = KINDS[number % len(KINDS)]
    program = PROGRAMS[number // len(KINDS) % 2]
    kind = "jobctl stop" if how == "stop" else "by hand"
    bed = cluster(SHAPE, folder)
    job = BedJob.make(
        bed, folder, way, "nodes=3", "procs=2", "launcher=spawn", f"lifecycle.grace={GRACE_S}s",
        *(["hosts=node[1-3]"] if way != "slurm" else []), command=("bed_program.py", program),
    )  # fmt: skip
    if how == "Ctrl-C":
        job.follow()
    else:
        job.start()
    job.wait_for_rank_words(6, "up")
    stop_time = time.monotonic()
    stop(job)
    job.wait(lambda: not job.nodes_with_processes(), "the end of all processes", GRACE_S + MORE_S + 30)
    measured: dict[str, Any] = {"kind": kind, "way": way, "how": how, "program": program}
    measured["ended_s"] = ended_s = round(time.monotonic() - stop_time, 1)
    expect(ended_s <= GRACE_S + MORE_S, f"it took {ended_s} s to end", **measured)
    quiet_until = time.monotonic() + QUIET_S
    while time.monotonic() < quiet_until:
        expect(not job.nodes_with_processes(), f"started again on {job.nodes_with_processes()}", **measured)
        time.sleep(0.3)
    expect(not bed.jobs(), f"jobs in the queue: {bed.jobs()}", **measured)
    expect(len(list((job.run / "artifact").iterdir())) == 1, "another attempt was made", **measured)
    return measured


def figure(lines: Sequence[Line]) -> str:
    longest = {
        of: max((line.get("ended_s", 0) for line in lines if line.get("program") == of), default=0) for of in PROGRAMS
    }
    last = f"the last process after at most {longest['saves']} s where ranks save"
    return f"{k_of_n_by('kind')(lines)}; {last}, {longest['ignores']} s where they are killed after {GRACE_S} s"


CAMPAIGN = Campaign(
    name="stopped",
    claim=(
        "jobctl stop and manual cancellation end all processes of a run on all nodes within the grace period (plus"
        f" {MORE_S} s for processes that are not ranks), and nothing restarts the run."
    ),
    trial=(
        "starts 6 ranks of a program without torch on 3 hosts. The program saves on SIGTERM or ignores it. The run"
        " is ended by jobctl stop (ssh, pdsh, clush, Slurm), scancel, Ctrl-C at submit, or SIGTERM to a supervisor,"
        f" with a grace period of {GRACE_S} s. No process of the run and no job may be left, and none may come back"
        f" for {QUIET_S} s."
    ),
    count=40,
    run=run,
    figure=figure,
)
