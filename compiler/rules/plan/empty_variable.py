"""JC3004: a variable that is set to nothing, which is not the same as not set at all.

Source PyTorch 2.13: torch.distributed ends with a ValueError for TORCH_DISTRIBUTED_DEBUG, ProcessGroupNCCL with
       `Invalid value for environment variable` for numbers and flags (c10d/Utils.hpp, getCvarInt, getCvarBool)
       NCCL 2.28: an empty number is its default (misc/param.cc), an empty NCCL_NET a name that no network has (init.cc)
       libfabric and UCX have parsers of their own
"""

from __future__ import annotations

from collections.abc import Iterator

from ...diagnostics import Diagnostic, Severity
from ...plan import LaunchPlan
from ...spec import JobSpec

_PARSED = ("NCCL_", "RCCL_", "TORCH_", "UCX_", "FI_", "GLOO_", "CUDA_", "OMP_")


def check(spec: JobSpec, plan: LaunchPlan) -> Iterator[Diagnostic]:
    for name, value in spec.env.items():
        if not value and name.startswith(_PARSED):
            because = "torch ends at an empty value, NCCL looks for a network without a name, or takes its default"
            title, hint = f"env.{name} is set to nothing", f"~env.{name}, and it is not set at all"
            yield Diagnostic("JC3004", title, because, hint, key=f"env.{name}", severity=Severity.WARNING)
