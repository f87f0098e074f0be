"""A secret reaches the ranks, but no place where others could read it or where it would remain after the run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jobc.tests.testbed import Cluster, Shape

from .bed import WAYS, BedJob, cluster
from .campaign import Campaign, expect, k_of_n_by

SHAPE = Shape(nodes=2, gpus_per_node=0)
KINDS = tuple((way, kind) for kind in ("env", "file") for way in WAYS)
SPOOLS = ("/var/spool", "/tmp")


def run(number: int, folder: Path) -> dict[str, Any]:
    """Run a trial. The search runs while the ranks are waiting, and again after the job has ended."""
    way, kind = KINDS[number % len(KINDS)]
    canary = f"canary-{number}-{hash(str(folder)) & 0xFFFFFF:06x}-of-no-account"
    bed = cluster(SHAPE, folder)
    hosts = ["hosts=node[1-2]"] if way != "slurm" else []
    token_file = bed.login.home / "token"
    token_file.write_text(canary)
    token_file.chmod(0o600)
    secret = "env:TOKEN" if kind == "env" else f"file:{token_file}"
    job = BedJob.make(
        bed, folder, way, "nodes=2", "procs=1", "launcher=spawn", f"secrets.TOKEN={secret}", "lifecycle.grace=5s",
        *hosts, command=("bed_program.py", "saves"),
    )  # fmt: skip
    job.start(env={"TOKEN": canary} if kind == "env" else {})
    job.wait_for_rank_words(2, "up")
    ranks = [process for host in bed.nodes for process in host.processes("bed_program")]
    recipients = [process for process in ranks if process.environment.get("TOKEN") == canary]
    places = found(bed, folder, canary)
    job("stop", check=True)
    places += found(bed, folder, canary)
    measured = {"kind": f"{kind} through {way}", "places": sorted(set(places))}
    expect(len(recipients) >= 2, f"{len(recipients)} rank processes received it", **measured)
    expect(not places, "found in a forbidden place", **measured)
    leaks = [
        path for path in bed.login.home.rglob("*") if path.is_file() and path != token_file and holds(path, canary)
    ]
    expect(not leaks, f"left in the home folder: {[path.name for path in leaks]}", **measured)
    return measured


def found(bed: Cluster, folder: Path, canary: str) -> list[str]:
    """Return where the canary was found: job files, spool folders, command lines, Slurm's output, daemons."""
    places = [f"command line on {name}" for name, processes in bed.processes(canary).items() if processes]
    roots = [folder, *(host.outside(spool) for host in bed.hosts for spool in SPOOLS)]
    places += [path.name for root in roots for path in root.rglob("*") if path.is_file() and holds(path, canary)]
    for job_id in bed.jobs():
        output = bed.login.run(f"scontrol show job --details {job_id}; scontrol write batch_script {job_id} -").stdout
        places += ["scontrol"] if canary in output else []
    for host in bed.hosts:  # the job's own processes have it, but only their user can read it; daemons must not have it
        daemons = host.processes(r"slurmctld|slurmd |slurmstepd|sshd|jobctl submit")
        places += [f"environment of {s.command[:20]}" for s in daemons if canary in s.environment.values()]
    return places


def holds(path: Path, canary: str) -> bool:
    try:
        return canary.encode() in path.read_bytes()
    except OSError:  # it has just ended
        return False


CAMPAIGN = Campaign(
    name="secrets",
    claim=(
        "A secret appears in no artifact, log, command line, spool folder or daemon environment, nor in what Slurm"
        " prints."
    ),
    trial=(
        "starts 2 ranks on 2 hosts with a secret from the submitter's environment or from a file; both ranks must"
        " receive it. While they run, and after they are stopped, the value is searched for in all files of the"
        " project and the run, in /tmp and /var/spool on every host, in all command lines, and in what scontrol"
        " prints and stores for the job."
    ),
    count=len(KINDS),
    run=run,
    figure=k_of_n_by("kind"),
)
