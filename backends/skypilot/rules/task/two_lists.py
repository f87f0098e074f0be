"""JC4718: both any_of and ordered are set, but SkyPilot accepts only one."""

from __future__ import annotations

from collections.abc import Iterator

from .....compiler.diagnostics.diagnostic import Diagnostic
from ...finished import FinishedTask


def check(task: FinishedTask) -> Iterator[Diagnostic]:
    resources = task.section("resources")
    if resources.get("any_of") and resources.get("ordered"):
        because = "it picks the cheapest of any_of, or the first of ordered"
        hint = "backend.any_of=[], or backend.ordered=[]"
        title = "SkyPilot would reject any_of together with ordered"
        yield Diagnostic("JC4718", title, because, hint, key="backend.ordered")
