"""JC2063: a time above the limit of the partition."""

from __future__ import annotations

from collections.abc import Iterator

from ...diagnostics import Diagnostic
from ...spec import JobSpec
from ...values import show_duration
from ._site import too_much


def check(spec: JobSpec) -> Iterator[Diagnostic]:
    yield from too_much("JC2063", spec, "time", show_duration)
