"""JC3004: an empty value of a variable that is read as a number: it counts as 0, not as unset."""

from __future__ import annotations

from collections.abc import Iterator

from ..diagnostics import Diagnostic, Severity
from ..plan import LaunchPlan
from ..spec import JobSpec

_READ_AS_NUMBERS = ("NCCL_", "RCCL_", "TORCH_NCCL_", "UCX_", "FI_", "GLOO_", "CUDA_")


def check(spec: JobSpec, plan: LaunchPlan) -> Iterator[Diagnostic]:
    for name, value in spec.env.items():
        if not value and name.startswith(_READ_AS_NUMBERS):
            because = "it is set, and empty: NCCL reads 0, such as GID index 0, where it would have chosen by itself"
            title, hint = f"env.{name} is set to nothing", f"~env.{name}, and it is not set at all"
            yield Diagnostic("JC3004", title, because, hint, key=f"env.{name}", severity=Severity.WARNING)
