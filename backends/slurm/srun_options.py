"""The srun options that differ from sbatch's, for `backend.srun_extra`.

Source: src/common/slurm_opt.c in releases XX.YY.0 from 22.05 to 25.11 (github.com/SchedMD/slurm), options with a
set_func or set_func_srun, but not those with a set_func_sbatch.
"""

from collections.abc import Mapping

from .._shared import sbatch_options

# Options that only some versions from 22.05 to 25.11 have -> the first version with the option (SINCE) or without it
# (GONE).
SINCE: Mapping[str, str] = {
    **sbatch_options.SINCE,
    "autocomplete": "23.02",
    "external-launcher": "23.11",
    "treewidth": "23.11",
    "wait-for-children": "25.05",
}
GONE: Mapping[str, str] = {"power": "24.05"}
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
OPTIONS = (sbatch_options.OPTIONS | OF_SRUN_ALONE) - OF_SBATCH_ALONE
