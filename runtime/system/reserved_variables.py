"""Environment variables that users cannot set in `env` or, except for DEFAULTS, with `jobctl submit --env`.

A launcher, an engine or jobc sets them.

The names include every variable in the trainer's contract (trainer/dist/env.py), which this module cannot import.
"""

from __future__ import annotations

# defaults of jobc, which a shell in the command, and `jobctl submit --env`, may change
DEFAULTS = ("OMP_NUM_THREADS", "PYTHONUNBUFFERED")
_NAMES = frozenset((
    "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT",
    "TORCHELASTIC_USE_AGENT_STORE", "TORCHELASTIC_RESTART_COUNT", "ACCELERATE_MIXED_PRECISION",
    "ACCELERATE_DYNAMO_BACKEND", "ACCELERATE_USE_DEEPSPEED", "ACCELERATE_USE_FSDP",
    "ACCELERATE_DEEPSPEED_CONFIG_FILE", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID",
    "SLURM_STEP_TASKS_PER_NODE", "SLURM_NODEID", "SLURM_STEP_NODELIST", "SLURM_JOB_ID", "SLURM_STEP_ID",
    "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE",
    "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "PMI_LOCAL_RANK", "PMI_LOCAL_SIZE",
    "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_SIZE",
    "SKYPILOT_NODE_RANK", "SKYPILOT_NUM_NODES", "SKYPILOT_NUM_GPUS_PER_NODE", "SKYPILOT_NODE_IPS",
    "SKYPILOT_TASK_ID", "OMP_NUM_THREADS", "PYTHONPATH", "PYTHONUNBUFFERED",
))  # fmt: skip


def is_reserved(name: str) -> bool:
    return name in _NAMES or name.startswith("JOBC_")
