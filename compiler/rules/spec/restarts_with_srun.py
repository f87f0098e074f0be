"""JC2010: restarts in place with a launcher that does not support them."""

from __future__ import annotations

from collections.abc import Iterator

from ...diagnostics.diagnostic import Diagnostic
from ...spec.job_spec import JobSpec


def check(spec: JobSpec) -> Iterator[Diagnostic]:
    if spec.lifecycle.max_restarts and spec.launcher == "srun":
        because = "an srun task ends when its rank ends, and only Slurm can start it again"
        hint = "lifecycle.max_restarts=0, because Slurm requeues the job; or launcher=torchrun"
        title = "launcher=srun does not support lifecycle.max_restarts"
        yield Diagnostic("JC2010", title, because, hint, key="lifecycle.max_restarts")
