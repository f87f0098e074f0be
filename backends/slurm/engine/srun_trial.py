"""Run launch.sh on the same kind of nodes as the job, in a new allocation or beside a live run. Packed into jobctl.

In:  job.sbatch with the job's options; the artifact's settings (cpus, pyxis).
Out: an srun command as words, and its environment.
Source: Slurm manual page srun; 22.05 to 25.11.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from ....runtime.engines.engine import Engine
from ....runtime.run_folder.run import Run
from ....runtime.system.failure import Failure
from .pyxis import container_options

MINUTES = 10  # time limit of the new allocation
_OF_THE_JOB_ALONE = re.compile(
    "--(array|time|signal|requeue|no-requeue|open-mode|output|error|dependency|ntasks-per-node|cpus-per-task)"
)  # options that srun does not have, that apply to the job's tasks, or that would hide the trial's output


def srun_command_for_new_allocation(
    engine: Engine, run: Path, project: Path, options: Sequence[str], payload: Sequence[str]
) -> list[str]:
    """Return an srun command that waits for an allocation and runs one launch.sh on each of its nodes.

    options: further srun options, which override the job's
    payload: launch.sh's payload, followed by the payload's command, if any
    """
    artifact, cores = engine.job.artifact, engine.job.settings.get("cpus")
    script = os.fsdecode((artifact / "job.sbatch").read_bytes()).partition("\n#SBATCH hetjob\n")[0]
    job_options = re.findall("^#SBATCH (.*)$", script, re.MULTILINE)
    flags = [option for option in job_options if not _OF_THE_JOB_ALONE.match(option)]
    flags += [f"--cpus-per-task={cores}"] if cores else []
    trial = ["--ntasks-per-node=1", f"--time={MINUTES}", "--mpi=none", "--quiet", *options]
    container = container_options(engine.job.settings, artifact, run, project)
    environ = _env_command(run, 0, project)
    return ["srun", *flags, *trial, *container, *environ, "bash", str(artifact / "launch.sh"), "", *payload]


def srun_command_for_live_run(
    engine: Engine, run: Run, project: Path, allocation: tuple[str, str], node: int, pty: Sequence[str]
) -> list[str]:
    """Return an srun command that runs launch.sh with the payload `shell` on one of a live run's nodes.

    allocation: job ID and list of nodes, as squeue prints them
    Raises Failure if the node does not exist.
    """
    job_id, nodes = allocation
    hosts = engine.ask(["scontrol", "show", "hostnames", nodes]).text.split()
    if node >= len(hosts):
        raise Failure(f"node {node} does not exist", f"the run has {len(hosts)} nodes", 2)
    where = [f"--jobid={job_id}", "--overlap", "--nodes=1", "--ntasks=1", f"--nodelist={hosts[node]}", "--mpi=none"]
    own = [f"JOBC_JOB_ID={job_id}", f"JOBC_NODE_RANK={node}", f"JOBC_HEAD_ADDR={hosts[0]}", f"JOBC_NODE_LIST={nodes}"]
    environ = [*_env_command(run.path, run.attempt, project), *own]  # variables of the run's step, not of this step
    script = f"{run.path}/artifact/{run.attempt}/launch.sh"
    container = container_options(engine.job.settings, engine.job.artifact, run.path, project)
    return ["srun", *where, *pty, *container, *environ, "bash", script, str(node), "shell"]


def _env_command(run: Path, attempt: int | None, project: Path) -> list[str]:
    return ["env", f"JOBC_RUN_DIR={run}", f"JOBC_ATTEMPT={attempt}", f"JOBC_PROJECT={project}"]


def strip_label_padding(line: str) -> str:
    """Return a line of `srun --label` without the padding of task numbers, which srun adds for ten tasks or more."""
    return re.sub("^[ 0]*([0-9]+: )", r"\1", line)
