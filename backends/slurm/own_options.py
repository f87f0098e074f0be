"""The options of sbatch that are jobc's, and so none of `backend.extra`: JC4600.

In   the options that `backend.extra` adds
Out  a JC4600 for each that a key of the job says, or that would end another way than submit.sh knows
"""

from __future__ import annotations

from collections.abc import Iterator

from ...compiler.diagnostics.diagnostic import Diagnostic
from ...compiler.emit.overlay import refuse_extra
from ...compiler.plan.launch_plan import LaunchPlan
from .._shared.sbatch_options import CONTAINER
from .options import SlurmOptions

# The #SBATCH options that job.sbatch may contain, and the keys that set them.
EMITTED = {
    "account": "queue.account",
    "constraint": "backend.constraint",
    "cpus-per-task": "cpus",
    "dependency": "queue.after",
    "exclude": "queue.exclude",
    "exclusive": "queue.exclusive",
    "gpus-per-node": "gpus",
    "gres": "gpus and backend.gpus_as",
    "job-name": "name",
    "mem": "mem and backend.mem_policy",
    "no-requeue": "lifecycle.max_requeues",
    "nodelist": "queue.nodelist",
    "nodes": "nodes",
    "ntasks-per-node": "nodes, procs and launcher",
    "open-mode": "lifecycle.max_requeues",
    "partition": "queue.name",
    "priority": "queue.priority",
    "qos": "queue.qos",
    "requeue": "lifecycle.max_requeues",
    "reservation": "queue.reservation",
    "signal": "lifecycle.grace",
    "time": "time",
}
# What else contradicts these, or what submit.sh tells sbatch. --gpus-per-task and its like would hide the other GPUs of
# the node from a rank; a container that only Slurm knows of would pass by what a site says of images. With --export or
# --export-file the script itself would lack HOME, PATH and JOBC_RUN_ROOT, or have the user's other variables.
# --clusters queues it where no other script would look; --wait keeps submit.sh until the job has ended, with no run
# folder to follow; the rest of NO_JOB queues nothing.
NO_JOB = ("external", "help", "test-only", "usage", "version")
OURS = {
    **EMITTED,
    "array": "a sweep (jobc -m) and backend.array_limit",
    "chdir": "storage.root",
    "cluster": "SLURM_CONF of submit.sh",
    "clusters": "SLURM_CONF of submit.sh",
    "cpus-per-gpu": "cpus",
    "error": "storage.root",
    "export": "env",
    "export-file": "env",
    "gpu-bind": "gpus",
    "gpus": "gpus",
    "gpus-per-socket": "gpus",
    "gpus-per-task": "gpus",
    "mem-per-cpu": "mem and backend.mem_policy",
    "mem-per-gpu": "mem and backend.mem_policy",
    "nodefile": "queue.nodelist",
    "ntasks": "nodes, procs and launcher",
    "ntasks-per-gpu": "nodes, procs and launcher",
    "ntasks-per-tres": "nodes, procs and launcher",
    "output": "storage.root",
    "tasks-per-node": "nodes, procs and launcher",
    "tres-per-task": "gpus and cpus",
    "wait": "submit.sh --wait",
    "wrap": "the words after --",
    **dict.fromkeys(CONTAINER, "image, container, mounts and container.options"),
    **dict.fromkeys(NO_JOB, "the words after --"),
}


def check(plan: LaunchPlan, options: SlurmOptions) -> Iterator[Diagnostic]:
    ours = OURS | ({"oversubscribe": "queue.exclusive"} if plan.queue.exclusive else {})  # the last one would count
    yield from refuse_extra(options.extra, {(option,): owner for option, owner in ours.items()})
