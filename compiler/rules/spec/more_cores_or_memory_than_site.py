"""JC2062: more cores or memory than a node at the site has."""

from __future__ import annotations

from collections.abc import Iterator

from ...diagnostics.diagnostic import Diagnostic
from ...spec.job_spec import JobSpec
from ...spec.value_types import format_bytes
from ._site import exceeds_site


def check(spec: JobSpec) -> Iterator[Diagnostic]:
    yield from exceeds_site("JC2062", spec, "cpus")
    yield from exceeds_site("JC2062", spec, "mem", format_bytes)
