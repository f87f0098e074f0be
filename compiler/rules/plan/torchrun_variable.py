"""JC3007: variables in env such as PET_NNODES, from which torchrun reads every option that launch.sh does not set.

Source: torch/distributed/argparse_util.py of PyTorch 2.13.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...diagnostics.diagnostic import Diagnostic
from ...plan.launch_plan import LaunchPlan
from ...spec.job_spec import JobSpec

_KEYS = {
    "PET_NNODES": "nodes=2",
    "PET_NPROC_PER_NODE": "procs=2",
    "PET_MASTER_PORT": "rendezvous.port=29400",
    "PET_MAX_RESTARTS": "lifecycle.max_restarts=1",
}


def check(spec: JobSpec, plan: LaunchPlan) -> Iterator[Diagnostic]:
    for name in spec.env:
        if name.startswith("PET_"):
            because = "torchrun reads options from PET_ variables, which would override those in launch.sh and the plan"
            hint = f"~env.{name}" + (f", and {_KEYS[name]}" if name in _KEYS else "")
            yield Diagnostic("JC3007", f"env.{name} is an option of torchrun", because, hint, key=f"env.{name}")
