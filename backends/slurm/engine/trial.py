"""Run task.sh on nodes as a job would get them, in an allocation of its own, or beside a live run. Packed into jobctl.

In   job.sbatch with the options of the job; settings of the artifact (cpus, pyxis)
Out  the words and the environment of an srun
Source Slurm manual page srun; 22.05 to 25.11
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from ....trainer.rt.engines.engine import Engine, Failure
from ....trainer.rt.engines.run import Run

MINUTES = 10  # time limit of the allocation
_OF_THE_JOB_ALONE = re.compile(
    "--(time|signal|requeue|no-requeue|open-mode|dependency|ntasks-per-node|cpus-per-task)"
)  # options that srun does not have, or that are for the tasks of the job


def words_on_nodes(engine: Engine, run: Path, project: Path, options: Sequence[str], task: Sequence[str]) -> list[str]:
    """Return an srun that waits for an allocation and runs one task.sh on each of its nodes.

    options: further ones of srun, which override those of the job; task: payload of task.sh, and a command
    """
    artifact, cores = engine.job.artifact, engine.job.settings.get("cpus")
    flags = [option for option in _job_options(artifact / "job.sbatch") if not _OF_THE_JOB_ALONE.match(option)]
    flags += [f"--cpus-per-task={cores}"] if cores else []
    own = ["--ntasks-per-node=1", f"--time={MINUTES}", "--mpi=none", "--quiet", *options]
    container = container_options(engine, run, project)
    return ["srun", *flags, *own, *container, "bash", str(artifact / "task.sh"), str(run), "0", *task]


def words_beside(
    engine: Engine, run: Run, project: Path, allocation: tuple[str, str], node: int, pty: Sequence[str]
) -> list[str]:
    """Return an srun that runs node.sh, payload shell, on a node of a live run; a command may follow.

    allocation: job ID and list of nodes, as squeue prints them. Raises Failure.
    """
    job_id, nodes = allocation
    hosts = engine.ask(["scontrol", "show", "hostnames", nodes]).text.split()
    if node >= len(hosts):
        raise Failure(f"there is no node {node}", f"the run has {len(hosts)} nodes", 2)
    where = [f"--jobid={job_id}", "--overlap", "--nodes=1", "--ntasks=1", f"--nodelist={hosts[node]}", "--mpi=none"]
    variables = {
        "JOBC_RUN_DIR": run.path,
        "JOBC_ATTEMPT": run.attempt,
        "JOBC_JOB_ID": job_id,
        "JOBC_HEAD_ADDR": hosts[0],
        "JOBC_NODE_LIST": nodes,
    }
    environ = ["env", *(f"{name}={value}" for name, value in variables.items())]
    script = f"{run.path}/artifact/{run.attempt}/node.sh"
    container = container_options(engine, run.path, project)
    return ["srun", *where, *pty, *container, *environ, "bash", script, str(node), "shell"]


def container_options(engine: Engine, run: Path, project: Path) -> list[str]:
    """Return the options of srun for a container of Pyxis; [] without one. Exits if Pyxis cannot mount a folder."""
    if not engine.job.settings.get("pyxis"):
        return []
    answer = engine.ask(["bash", "-p", str(engine.job.artifact / "pyxis.sh"), str(run), str(project)])
    if answer.code:
        sys.stderr.write(answer.errors)
        sys.exit(answer.code)
    return answer.text.split("\0")[:-1]


def container_environment(engine: Engine, environ: Mapping[str, str]) -> dict[str, str]:
    """Return where a container of Pyxis finds the secrets: an image may set another HOME."""
    home = environ.get("HOME")
    return {"JOBC_SECRETS_ROOT": f"{home}/.jobc/secrets"} if engine.job.settings.get("pyxis") and home else {}


def without_padding(line: str) -> str:
    """Return a line of `srun --label`, which pads the number of the task if there are ten or more."""
    return re.sub("^[ 0]*([0-9]+: )", r"\1", line)


def _job_options(script: Path) -> list[str]:
    lines = os.fsdecode(script.read_bytes()).splitlines()
    return [line[len("#SBATCH ") :] for line in lines if line.startswith("#SBATCH ")]
