"""JC2003: a global batch that cannot be split over the ranks."""

from __future__ import annotations

from collections.abc import Iterator

from ...diagnostics.diagnostic import Diagnostic
from ...plan.derive import world_size
from ...spec.job_spec import JobSpec


def check(spec: JobSpec) -> Iterator[Diagnostic]:
    micro, total, world = spec.batch.micro, spec.batch.global_, world_size(spec)
    if total is not None and spec.batch.accumulation is None and total % (micro * world):
        unit = micro * world
        below, above = total // unit * unit, (total // unit + 1) * unit
        nearest = f"batch.global={below} or {above}" if below else f"batch.global={above}"
        yield Diagnostic(
            "JC2003",
            f"batch.global={total} cannot be split over {world} rank{'s' * (world > 1)}",
            f"batch.global must be a multiple of micro {micro} x {world} ranks = {unit}",
            nearest,
            key="batch.global",
        )
