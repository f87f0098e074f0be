"""JC4600: sbatch and srun options that jobc sets, so `backend.extra` and `backend.srun_extra` may not.

In:  the options that these two keys add.
Out: a JC4600 for each option that a job key sets, that jobctl batch would undo, or that would break jobctl submit.
"""

from collections.abc import Iterator

from ...compiler.diagnostics.diagnostic import Diagnostic
from ...compiler.emit.extra_entries import check_extra_entries
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
    "gres": "gpus, or backend.gres",
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
# Other options that contradict these, or those that jobctl submit passes to sbatch. --gpus-per-task and similar would
# hide the node's other GPUs from a rank. A container set only in Slurm would bypass the site's rules for images. With
# --export or --export-file, the script itself would lack HOME, PATH and JOBC_RUN_ROOT, or get the user's other
# variables. jobctl batch unsets the variables by which --distribution, --mem-bind and --tres-bind reach srun, because
# an allocation may set them. With --clusters alone, the job would be queued on a cluster that no verb queries. --wait
# would block jobctl submit until the job has ended, without a run folder to follow. The options in NO_JOB queue
# nothing.
NO_JOB = ("external", "help", "test-only", "usage", "version")
OURS = {
    **EMITTED,
    "array": "a sweep (jobc -m) and backend.array_limit",
    "chdir": "storage.root",
    "cluster": "backend.cluster",
    "clusters": "backend.cluster",
    "cpus-per-gpu": "cpus",
    "distribution": "backend.distribution",
    "error": "backend.output",
    "export": "env",
    "export-file": "env",
    "gpu-bind": "backend.gpu_bind",
    "gpus": "gpus",
    "gpus-per-socket": "gpus",
    "gpus-per-task": "gpus",
    "mem-bind": "backend.srun_extra.mem-bind",
    "mem-per-cpu": "mem and backend.mem_policy",
    "mem-per-gpu": "mem and backend.mem_policy",
    "nodefile": "queue.nodelist",
    "ntasks": "nodes, procs and launcher",
    "ntasks-per-gpu": "nodes, procs and launcher",
    "ntasks-per-tres": "nodes, procs and launcher",
    "output": "backend.output",
    "tasks-per-node": "nodes, procs and launcher",
    "tres-bind": "backend.gpu_bind",
    "tres-per-task": "gpus and cpus",
    "wait": "jobctl submit --wait",
    "wrap": "the words after --",
    **dict.fromkeys(CONTAINER, "image, container, mounts and container.options"),
    **dict.fromkeys(NO_JOB, "the words after --"),
}


# job.sbatch sets the nodes, tasks and exit behavior of its step; the partition and the output files belong to the whole
# job.
SRUN = {
    **{name: OURS[name] for name in (
        "account", "chdir", "cluster", "clusters", "constraint", "cpus-per-gpu", "cpus-per-task", "dependency",
        "distribution", "error", "exclude", "exclusive", "export", "gpu-bind", "gpus", "gpus-per-node",
        "gpus-per-socket", "gpus-per-task", "gres", "job-name", "mem", "mem-per-cpu", "mem-per-gpu", "nodefile",
        "nodelist", "nodes", "ntasks", "ntasks-per-gpu", "ntasks-per-node", "ntasks-per-tres", "open-mode", "output",
        "partition", "priority", "qos", "reservation", "signal", "tasks-per-node", "time", "tres-bind",
        "tres-per-task", *CONTAINER,
    )},
    "cpu-bind": "backend.cpu_bind",
    "kill-on-bad-exit": "lifecycle.grace",
    "label": "backend.label",
    "mpi": "backend.mpi",
    "multi-prog": "the words after --",
    "no-kill": "lifecycle.grace",
    "preserve-env": "env",
    "relative": "queue.nodelist",
    "wait": "lifecycle.grace",
    "wait-for-children": "lifecycle.grace",
    **dict.fromkeys(("autocomplete", "external-launcher", "help", "het-group", "interactive", "jobid", "no-allocate",
                     "pack-group", "pty", "test-only", "usage", "version"), "the words after --"),
}  # fmt: skip


def check(plan: LaunchPlan, options: SlurmOptions) -> Iterator[Diagnostic]:
    ours = OURS | ({"oversubscribe": "queue.exclusive"} if plan.queue.exclusive else {})  # Slurm uses the last one
    yield from check_extra_entries(options.extra, {(option,): owner for option, owner in ours.items()})
    for i, device in enumerate(options.gres):
        if device.partition(":")[0] == "gpu":
            title, key = f"backend.gres: {device} is a GPU", f"backend.gres.{i}"
            because = "jobc sets GPUs from gpus and gpu_type, and the scripts rely on these values"
            yield Diagnostic("JC4600", title, because, f"remove {key}, and set gpus", key=key)
    yield from check_extra_entries(
        options.srun_extra, {(option,): owner for option, owner in SRUN.items()}, ("backend", "srun_extra")
    )
