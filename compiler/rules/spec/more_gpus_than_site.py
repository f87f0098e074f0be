"""JC2060: more GPUs than a node at the site has. checks/accelerate.py checks the numbers in gpu_ids."""

from __future__ import annotations

from collections.abc import Iterator

from ...diagnostics.diagnostic import Diagnostic
from ...spec.job_spec import JobSpec
from ._site import exceeds_site


def check(spec: JobSpec) -> Iterator[Diagnostic]:
    yield from exceeds_site("JC2060", spec, "gpus")
