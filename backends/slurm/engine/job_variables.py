"""Translate a task's Slurm variables into jobc's. Called by `jobctl node` and `jobctl container`; Python 3.8.

In:  an srun task's environment, including the variables that batch.py or srun_trial.py set (they override Slurm's).
Out: the node's JOBC_ variables; LOCAL_RANK with launcher=srun; for jobctl stop, the step's ID in RUN/state/step.
Source: Slurm manual page srun, OUTPUT ENVIRONMENT VARIABLES; 22.05 to 25.11.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from ....runtime.exit_codes import DATA_BROKEN
from ....runtime.node.node_failure import NodeFailure
from ....runtime.node.node_settings import NodeSettings
from ....runtime.run_folder.artifact_copies import newest_attempt_from
from ....runtime.run_folder.run_folder import REQUEUES
from ....runtime.system.values import read_keys
from .job_records import full_job_id, record_step

_HOST_LIST = re.compile(r"([^][,]*)\[([^][,-]+)[^]]*\](.*)", re.DOTALL)

FROM_SALLOC = "run salloc with the options from the #SBATCH lines in job.sbatch"
COMPILED_AGAIN = "the artifact may have been compiled again after sbatch, or job.sbatch edited: submit the job again"


def job_variables(environ: Mapping[str, str], artifact: Path, rank: str) -> dict[str, str]:
    """Return this task's variables, or {} outside a Slurm step. Raises NodeFailure.

    rank: ignored, because the same command starts launch.sh on all nodes.
    """
    if not environ.get("SLURM_NODEID") or not environ.get("SLURM_STEP_ID"):
        return {}
    job = NodeSettings.read(artifact)
    attempt = newest_attempt_from(artifact)
    run = None if attempt is None else artifact.parent.parent
    nodes = environ.get("SLURM_STEP_NODELIST", "")
    folder = environ.get("JOBC_RUN_DIR", "" if run is None else str(run))
    variables = {
        "JOBC_RUN_DIR": folder,
        "JOBC_RUN_ID": os.path.basename(folder),
        "JOBC_ATTEMPT": str(attempt or 0),
        "JOBC_JOB_ID": full_job_id(environ),
        "JOBC_TIME_LIMIT_S": "0",  # Slurm enforces the limit
        "JOBC_NODE_RANK": environ["SLURM_NODEID"],
        "JOBC_NODE_NAME": environ.get("SLURMD_NODENAME", ""),
        "JOBC_NODE_LIST": nodes,
        "JOBC_HEAD_ADDR": first_host(nodes),
        "JOBC_HEAD_PORT": str(job.rendezvous_port),  # 0: node 0 chooses a port and shares it
    }
    init_from = read_keys(Path(folder, "state/run")).get("init_from", "") if folder else ""
    if init_from:
        variables["JOBC_INIT_FROM"] = init_from
    variables = {name: environ.get(name, value) for name, value in variables.items()}
    if job.launcher == "srun":
        variables["LOCAL_RANK"] = environ.get("SLURM_LOCALID", "0")  # one task for each rank
    if wanted := environ.get("JOBC_STEP_TASKS"):
        present = environ.get("SLURM_STEP_TASKS_PER_NODE", "")
        if present != wanted:  # with --here, srun places tasks wherever they fit, regardless of --ntasks-per-node
            title = f"the allocation has room for {present} tasks per node, but this job needs {wanted}"
            raise NodeFailure(DATA_BROKEN, title, COMPILED_AGAIN if environ.get(REQUEUES) else FROM_SALLOC)
        if environ.get("SLURM_PROCID") == "0":
            record_step(Path(variables["JOBC_RUN_DIR"]), variables["JOBC_ATTEMPT"], environ)
    return variables


def first_host(nodes: str) -> str:
    """Return the first host in a list such as n[07-09,12],x1, without scontrol, which containers lack."""
    while match := _HOST_LIST.fullmatch(nodes):
        nodes = "".join(match.groups())
    return nodes.partition(",")[0]
