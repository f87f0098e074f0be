"""JC2002: a global batch and an accumulation that contradict each other."""

from __future__ import annotations

from collections.abc import Iterator

from ...diagnostics.diagnostic import Diagnostic
from ...plan.derive import data_ranks
from ...spec.job_spec import JobSpec
from ._ranks import describe_data_ranks


def check(spec: JobSpec) -> Iterator[Diagnostic]:
    micro, accumulation, total, ranks = spec.batch.micro, spec.batch.accumulation, spec.batch.global_, data_ranks(spec)
    product = micro * (accumulation or 1) * ranks
    if total is not None and accumulation is not None and product != total:
        yield Diagnostic(
            "JC2002",
            f"batch.global={total} contradicts batch.accumulation={accumulation}",
            f"micro {micro} x accumulation {accumulation} x {describe_data_ranks(spec)} = {product}",
            "batch.accumulation=null, to have it computed",
            key="batch.global",
        )
