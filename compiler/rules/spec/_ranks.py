"""Describe the ranks that have samples of their own."""

from __future__ import annotations

from ...plan.derive import data_ranks, world_size
from ...spec.job_spec import JobSpec


def describe_data_ranks(spec: JobSpec) -> str:
    """Return `1 rank` or `8 ranks`; `4 groups of 2 ranks` with batch.shared_by=2."""
    count, shared_by = data_ranks(spec), spec.batch.shared_by
    if shared_by > 1:
        return f"{count} group{'s' * (count > 1)} of {shared_by} ranks"
    return f"{count} rank{'s' * (world_size(spec) > 1)}"
