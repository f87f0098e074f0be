"""JC2065: more nodes than the site has."""

from __future__ import annotations

from collections.abc import Iterator

from ...diagnostics.diagnostic import Diagnostic
from ...spec.job_spec import JobSpec
from ._site import too_much


def check(spec: JobSpec) -> Iterator[Diagnostic]:
    yield from too_much("JC2065", spec, "nodes")
