"""JC2002: a global batch and an accumulation that contradict each other."""

from __future__ import annotations

from collections.abc import Iterator

from ...diagnostics.diagnostic import Diagnostic
from ...plan.derive import world_size
from ...spec.job_spec import JobSpec


def check(spec: JobSpec) -> Iterator[Diagnostic]:
    micro, accumulation, total, world = spec.batch.micro, spec.batch.accumulation, spec.batch.global_, world_size(spec)
    if total is not None and accumulation is not None and micro * accumulation * world != total:
        yield Diagnostic(
            "JC2002",
            f"batch.global={total} contradicts batch.accumulation={accumulation}",
            f"micro {micro} x accumulation {accumulation} x {world} ranks = {micro * accumulation * world}",
            "batch.accumulation=null, to have it computed",
            key="batch.global",
        )
