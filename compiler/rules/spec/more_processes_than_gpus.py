"""JC2001: more than one rank per GPU.

Source: NCCL 2.28, src/init.cc: `Duplicate GPU detected`, after which the ranks wait for one another.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...diagnostics.diagnostic import Diagnostic
from ...plan.derive import procs
from ...spec.job_spec import JobSpec


def check(spec: JobSpec) -> Iterator[Diagnostic]:
    if spec.gpus and procs(spec) > spec.gpus:
        title = f"{procs(spec)} processes on {spec.gpus} GPU{'s' * (spec.gpus > 1)} per node"
        because = "two ranks on one GPU hang in NCCL (Duplicate GPU detected)"
        hint = f"procs={spec.gpus}, or gpus={procs(spec)}, or gpus=0 for the CPU"
        yield Diagnostic("JC2001", title, because, hint, key="procs")
