"""JC2010: restarts in place, of a launcher that cannot do them."""

from __future__ import annotations

from collections.abc import Iterator

from ...diagnostics.diagnostic import Diagnostic
from ...spec.job_spec import JobSpec


def check(spec: JobSpec) -> Iterator[Diagnostic]:
    if spec.lifecycle.max_restarts and spec.launcher == "srun":
        because = "the tasks of srun end with their ranks, and only Slurm starts tasks"
        hint = "lifecycle.max_restarts=0, for Slurm requeues the job; or launcher=torchrun"
        title = "launcher srun cannot start ranks again in place"
        yield Diagnostic("JC2010", title, because, hint, key="lifecycle.max_restarts")
