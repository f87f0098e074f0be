"""Options of srun and sbatch: which exist, and which job keys set those that the user may not add.

Source: src/common/slurm_opt.c in releases XX.YY.0 from 22.05 to 25.11 (github.com/SchedMD/slurm): srun's options have a
set_func or set_func_srun, but not those with a set_func_sbatch. sbatch's are in _shared/sbatch_options.py.
"""

from collections.abc import Mapping

from .._shared.sbatch_options import CONTAINER, OPTIONS, SINCE, keys_by_option

# Options that only some versions have -> the first version with the option. No option of srun alone has sbatch's name.
SINCE_OF_BOTH: Mapping[str, str] = {
    **SINCE,
    **keys_by_option({"23.02": "autocomplete", "23.11": "external-launcher treewidth", "25.05": "wait-for-children"}),
}
OF_SRUN_ALONE = frozenset((
    "accel-bind", "autocomplete", "bcast", "bcast-exclude", "compress", "cpu-bind", "debugger-test", "disable-status",
    "epilog", "exact", "external-launcher", "het-group", "immediate", "interactive", "jobid", "kill-on-bad-exit",
    "label", "mpi", "msg-timeout", "multi-prog", "no-allocate", "overlap", "pack-group", "preserve-env", "prolog",
    "pty", "quit-on-interrupt", "relative", "send-libs", "slurmd-debug", "task-epilog", "task-prolog", "threads",
    "treewidth", "unbuffered", "wait-for-children", "whole", "x11",
))  # fmt: skip
OF_SBATCH_ALONE = frozenset((
    "array", "batch", "export-file", "external", "get-user-env", "ignore-pbs", "kill-on-invalid-dep", "no-requeue",
    "parsable", "requeue", "wait-all-nodes", "wrap",
))  # fmt: skip
SRUN_OPTIONS = (OPTIONS | OF_SRUN_ALONE) - OF_SBATCH_ALONE

# Job keys -> the sbatch options that they set, those that contradict these, and those that jobctl submit passes.
# --gpus-per-task and similar would hide the node's other GPUs from a rank. A container set only in Slurm would bypass
# the site's rules for images. With --export or --export-file, the script itself would lack HOME, PATH and
# JOBC_RUN_ROOT, or get the user's other variables. jobctl batch unsets the variables by which --distribution,
# --mem-bind and --tres-bind reach srun, because an allocation may set them. With --clusters alone, the job would be
# queued on a cluster that no verb queries. --wait would block jobctl submit until the job has ended, without a run
# folder to follow. With the last options of `the words after --`, sbatch queues nothing.
OURS: Mapping[str, str] = keys_by_option({
    "a sweep (jobc -m) and backend.array_limit": "array",
    "backend.cluster": "cluster clusters",
    "backend.constraint": "constraint",
    "backend.distribution": "distribution",
    "backend.gpu_bind": "gpu-bind tres-bind",
    "backend.output": "output",
    "backend.srun_extra.mem-bind": "mem-bind",
    "backend.stderr": "error",
    "cpus": "cpus-per-gpu cpus-per-task",
    "env": "export export-file",
    "gpus": "gpus gpus-per-node gpus-per-socket gpus-per-task",
    "gpus and cpus": "tres-per-task",
    "gpus, or backend.gres": "gres",
    "image, container, mounts and container.options": " ".join(CONTAINER),
    "jobctl submit --wait": "wait",
    "lifecycle.grace": "signal",
    "lifecycle.max_requeues": "no-requeue open-mode requeue",
    "mem and backend.mem_policy": "mem mem-per-cpu mem-per-gpu",
    "name": "job-name",
    "nodes": "nodes",
    "nodes, procs and launcher": "ntasks ntasks-per-gpu ntasks-per-node ntasks-per-tres tasks-per-node",
    "queue.account": "account",
    "queue.after": "dependency",
    "queue.exclude": "exclude",
    "queue.exclusive": "exclusive",
    "queue.name": "partition",
    "queue.nodelist": "nodefile nodelist",
    "queue.priority": "priority",
    "queue.qos": "qos",
    "queue.reservation": "reservation",
    "storage.root": "chdir",
    "the words after --": "wrap external help test-only usage version",
    "time": "time",
})  # fmt: skip

# job.sbatch sets the nodes, tasks and exit behavior of its step; the partition and the output files belong to the whole
# job. The sbatch options in _NOT_OF_SRUN either do not exist in srun, or may be set by the user.
_NOT_OF_SRUN = ("array", "export-file", "external", "mem-bind", "no-requeue", "requeue", "wrap")
SRUN: Mapping[str, str] = {
    **{option: key for option, key in OURS.items() if option not in _NOT_OF_SRUN},
    **keys_by_option({
        "backend.cpu_bind": "cpu-bind",
        "backend.label": "label",
        "backend.mpi": "mpi",
        "env": "preserve-env",
        "lifecycle.grace": "kill-on-bad-exit no-kill wait wait-for-children",
        "queue.nodelist": "relative",
        "the words after --": "autocomplete external-launcher help het-group interactive jobid multi-prog no-allocate "
                              "pack-group pty test-only usage version",
    }),
}  # fmt: skip
