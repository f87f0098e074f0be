"""JC2026: ranks that share samples, with the trainer or with a number of ranks that is not a multiple."""

from __future__ import annotations

from collections.abc import Iterator

from ...diagnostics.diagnostic import Diagnostic
from ...plan.derive import world_size
from ...spec.job_spec import JobSpec


def check(spec: JobSpec) -> Iterator[Diagnostic]:
    shared_by, world = spec.batch.shared_by, world_size(spec)
    if shared_by == 1:
        return
    key, title = "batch.shared_by", f"batch.shared_by={shared_by}"
    if spec.command is None:
        because = "in the bundled trainer, each rank has its own samples: it has no context or tensor parallelism"
        hint = "batch.shared_by=1; your own program may share samples: -- train.py"
        yield Diagnostic("JC2026", f"{title} needs your own program", because, hint, key=key)
    elif world % shared_by:
        because = f"the job has {world} rank{'s' * (world > 1)}, and each group of ranks must be complete"
        yield Diagnostic("JC2026", f"{title} does not divide the ranks", because, "batch.shared_by=1", key=key)
