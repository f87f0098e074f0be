"""Estimate how much of /dev/shm a node's loader workers use for batches.

In:  the spec and its plan.
Out: maximum bytes, None = unknown: for the user's own data, estimate.sample_size gives the size of a sample.
Source: torch 2.13, torch/utils/data/_utils/worker.py: a worker puts each tensor of a batch into a file of /dev/shm.
"""

from typing import Any

from ..plan.launch_plan import LaunchPlan
from ..spec.job_spec import JobSpec
from .parameters import PIXELS

TOKEN, NUMBER = 8, 4  # bytes per int64 and float32


def max_shared_memory(spec: JobSpec, plan: LaunchPlan) -> int | None:
    """Return the maximum per node: each worker holds `prefetch` micro-batches, for training and for validation."""
    if not plan.uses_trainer:
        return None
    train = plan.train
    loader, micro = train["loader"], int(train["batch"]["micro"])
    sample = spec.estimate.sample_size or _of_built_in(train)
    if not loader["workers"] or sample is None:
        return None if loader["workers"] else 0
    return 2 * plan.topology.procs * int(loader["workers"]) * int(loader["prefetch"]) * micro * sample


def _of_built_in(train: Any) -> int | None:
    kind = train["data"].get("kind")  # a `_target_` has no kind
    if kind == "digits":
        return PIXELS * NUMBER + TOKEN
    context = train["model"].get("context")
    return TOKEN * (int(context) + 1) if kind and isinstance(context, int) else None
