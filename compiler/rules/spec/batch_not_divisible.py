"""JC2003: a global batch that cannot be split over the ranks."""

from __future__ import annotations

from collections.abc import Iterator

from ...diagnostics.diagnostic import Diagnostic
from ...plan.derive import data_ranks
from ...spec.job_spec import JobSpec
from ._ranks import describe_data_ranks


def check(spec: JobSpec) -> Iterator[Diagnostic]:
    micro, total, ranks = spec.batch.micro, spec.batch.global_, data_ranks(spec)
    if total is not None and spec.batch.accumulation is None and total % (micro * ranks):
        unit = micro * ranks
        below, above = total // unit * unit, (total // unit + 1) * unit
        nearest = f"batch.global={below} or {above}" if below else f"batch.global={above}"
        yield Diagnostic(
            "JC2003",
            f"batch.global={total} cannot be split over {describe_data_ranks(spec)}",
            f"batch.global must be a multiple of micro {micro} x {describe_data_ranks(spec)} = {unit}",
            nearest,
            key="batch.global",
        )
