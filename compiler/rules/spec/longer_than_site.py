"""JC2063: a time limit that exceeds the partition's."""

from __future__ import annotations

from collections.abc import Iterator

from ...diagnostics.diagnostic import Diagnostic
from ...spec.job_spec import JobSpec
from ...spec.value_types import format_duration
from ._site import exceeds_site


def check(spec: JobSpec) -> Iterator[Diagnostic]:
    yield from exceeds_site("JC2063", spec, "time", format_duration)
