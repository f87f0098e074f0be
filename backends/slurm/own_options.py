"""The options of sbatch that are jobc's, and so none of `backend.extra`: JC4600.

In   the options that `backend.extra` adds
Out  a JC4600 for each that a key of the job says
"""

from __future__ import annotations

from collections.abc import Iterator

from ...compiler.diagnostics import Diagnostic
from ...compiler.extra import refuse_extra
from .._shared.sbatch_options import CONTAINER
from .options import SlurmOptions

# What job.sbatch or submit.sh say themselves, and the keys that they say it from. --gpus-per-task and its like would
# hide the other GPUs of the node from a rank; a container that only Slurm knows of would pass by what a site says of
# images.
OURS = {
    "--array": "a sweep (jobc -m) and backend.array_limit",
    "--chdir": "storage.root",
    "--constraint": "backend.constraint",
    "--cpus-per-gpu": "cpus",
    "--cpus-per-task": "cpus",
    "--dependency": "queue.after",
    "--error": "storage.root",
    "--exclude": "queue.exclude",
    "--exclusive": "queue.exclusive",
    "--account": "queue.account",
    "--gpu-bind": "gpus",
    "--gpus": "gpus",
    "--gpus-per-node": "gpus",
    "--gpus-per-task": "gpus",
    "--gres": "gpus and backend.gpus_as",
    "--job-name": "name",
    "--mem": "mem and backend.mem_policy",
    "--mem-per-cpu": "mem and backend.mem_policy",
    "--mem-per-gpu": "mem and backend.mem_policy",
    "--no-requeue": "lifecycle.max_requeues",
    "--nodefile": "queue.nodelist",
    "--nodelist": "queue.nodelist",
    "--nodes": "nodes",
    "--ntasks": "nodes, procs and launcher",
    "--ntasks-per-gpu": "nodes, procs and launcher",
    "--ntasks-per-node": "nodes, procs and launcher",
    "--ntasks-per-tres": "nodes, procs and launcher",
    "--open-mode": "lifecycle.max_requeues",
    "--output": "storage.root",
    "--partition": "queue.name",
    "--priority": "queue.priority",
    "--qos": "queue.qos",
    "--requeue": "lifecycle.max_requeues",
    "--reservation": "queue.reservation",
    "--signal": "lifecycle.grace",
    "--tasks-per-node": "nodes, procs and launcher",
    "--time": "time",
    "--tres-per-task": "gpus and cpus",
    "--wrap": "the words after --",
    **{f"--{option}": "image, container, mounts and container.options" for option in CONTAINER},
}


def check(options: SlurmOptions) -> Iterator[Diagnostic]:
    yield from refuse_extra(options.extra, {(option.removeprefix("--"),): owner for option, owner in OURS.items()})
