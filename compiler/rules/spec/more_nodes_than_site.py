"""JC2065: more nodes than the site has."""

from __future__ import annotations

from collections.abc import Iterator

from ...diagnostics.diagnostic import Diagnostic
from ...spec.job_spec import JobSpec
from ._site import exceeds_site


def check(spec: JobSpec) -> Iterator[Diagnostic]:
    yield from exceeds_site("JC2065", spec, "nodes")
