"""The equivalence check: an edit of what an engine is told beside the plan's own facts is noticed as well."""

from __future__ import annotations

import re

import pytest

from jobc.compiler.equivalence.check import check

from .edited_jobs import files_of

BATCH, NODE = "job.sbatch", "node.sh"
EDITS = [  # job, file, what stands there, what somebody makes of it, what is said
    ("slurm", BATCH, 'TERM "$run" || true\' USR2', 'TERM "$run" || true\' USR1', "does not trap USR2"),
    ("slurm", BATCH, "--signal=B:USR2@", "--signal=B:USR1@", "does not trap USR1"),
    ("slurm", BATCH, "#SBATCH --signal=B:USR2@100\n", "", "asks for no --signal"),
    ("slurm", BATCH, 'signal_steps TERM "$run"', 'signal_steps KILL "$run"', "at signal USR2: "),
    ("slurm", BATCH, "asked=time;", "asked=term;", "at signal USR2: "),
    ("slurm", BATCH, "trap 'asked=${asked:-term}' TERM\n", "", "does not trap TERM"),
    ("slurm", BATCH, "--export=ALL", "--export=NONE", "without --export=ALL: the tasks would lack"),
    ("slurm", BATCH, "  --mpi=none \\\n  --kill", "  --mpi=pmix \\\n  --kill", "without --mpi=none: a plugin"),
    ("slurm", BATCH, "unset SLURM_CPUS_PER_TASK SRUN", "unset SRUN", "srun would follow SLURM_CPUS_PER_TASK of"),
    ("slurm", BATCH, '"${!SLURM_GPU_BIND@}" ', "", "srun would follow SLURM_GPU_BIND of"),
    ("slurm", BATCH, "restarts > max_requeues", "restarts > 9", "takes restart . otherwise than max_requeues=2"),
    (
        "slurm",
        BATCH,
        "restarts > max_requeues",
        "restarts >= max_requeues",
        "takes restart . otherwise than max_requeues=2",
    ),
    ("slurm", BATCH, 'end_left_behind "$srun" 100', 'end_left_behind "$srun" 10', "ends srun 10 s after a failure"),
    ("slurm", NODE, "rendezvous_port=0", "rendezvous_port=29501", "rendezvous_port is 29501, the plan has 0"),
    ("ssh", NODE, 'unset "${!PET_@}" "${!TORCHELASTIC_@}"', ":", r"start 0\) leaves PET_NNODES as a shell outside"),
    ("ssh", NODE, 'unset "${!PET_@}" "${!TORCHELASTIC_@}"', 'unset "${!PET_@}"', "leaves TORCHELASTIC_RUN_ID as"),
    ("c10d", NODE, "unset TORCH_DISABLE_SHARE_RDZV_TCP_STORE", ":", "leaves TORCH_DISABLE_SHARE_RDZV_TCP_STORE as"),
    ("ssh", NODE, "; then find_network; fi", "; then :; fi", r"start 1\) does not call find_network: NCCL"),
    ("ssh", NODE, "find_head_port\n", "", r"start 0\) does not call find_head_port"),
    ("ssh", NODE, "  refuse_live_node\n", "", "does not call refuse_live_node"),
    ("docker", NODE, "settle_in\n", "", "does not call settle_in"),
    ("mpirun", NODE, "then need_mpirun;", "then :;", "does not call need_mpirun"),
    ("pods", NODE, "need_module deepspeed\n", "", "does not call need_module deepspeed"),
    ("pods", "engine.sh", "start_timeout_s=", "start_timeout_s=1", "start_timeout_s is 1"),
]


@pytest.mark.parametrize(("job", "path", "before", "after", "said"), EDITS, ids=[f"{e[0]}-{e[3][:30]}" for e in EDITS])
def test_an_edit_of_what_the_engine_is_told_is_noticed(job: str, path: str, before: str, after: str, said: str) -> None:
    files = files_of(job)
    assert before in files[path], files[path]
    found = check({**files, path: files[path].replace(before, after)}).differences
    assert any(re.search(said, text) for text in found), found
