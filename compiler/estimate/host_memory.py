"""Estimate how much CPU memory a node needs while the trainer saves or resumes a sharded model, and how much of
/dev/shm.

A checkpoint is not sharded: rank 0 gathers it to save, and each rank reads all of it (trainer/parallel/fsdp.py).
Source: torch 2.13, torch/utils/data/_utils/worker.py: a worker puts each tensor of a batch into a file of /dev/shm.
"""

from collections.abc import Mapping
from typing import Any

from ..plan.launch_plan import LaunchPlan
from ..spec.job_spec import JobSpec
from .memory import Memory
from .parameters import PIXELS


def host_memory(train: Mapping[str, Any], needs: Memory, procs: int, uses_trainer: bool) -> int | None:
    """Return the bytes that a node's `procs` ranks need to resume, None for unsharded models and other programs."""
    if not uses_trainer or train["parallel"]["kind"] not in ("fsdp", "hsdp") or needs.checkpoint is None:
        return None
    file_share = 2 / 3  # the larger of the two files is in memory while it is read; it contains the moments
    return procs * round(needs.checkpoint * (1 + file_share) + needs.host)


TOKEN, NUMBER = 8, 4  # bytes per int64 and float32


def max_shared_memory(spec: JobSpec, plan: LaunchPlan) -> int | None:
    """Return the maximum number of bytes that loader workers use per node. Each worker holds `prefetch` training
    batches and as many validation batches.

    None means unknown. For the user's own data, estimate.sample_size must give the size of a sample.
    """
    if not plan.uses_trainer:
        return None
    train = plan.train
    loader, micro = train["loader"], int(train["batch"]["micro"])
    sample = spec.estimate.sample_size or _builtin_sample_bytes(train)
    if not loader["workers"] or sample is None:
        return None if loader["workers"] else 0
    return 2 * plan.topology.procs * int(loader["workers"]) * int(loader["prefetch"]) * micro * sample


def _builtin_sample_bytes(train: Any) -> int | None:
    kind = train["data"].get("kind")  # a `_target_` has no kind
    if kind == "digits":
        return PIXELS * NUMBER + TOKEN
    context = train["model"].get("context")
    return TOKEN * (int(context) + 1) if kind and isinstance(context, int) else None
