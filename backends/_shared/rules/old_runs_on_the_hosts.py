"""JC4416: keep_runs is set although each host keeps its own runs."""

from __future__ import annotations

from collections.abc import Iterator

from ....compiler.diagnostics.diagnostic import Diagnostic
from ....compiler.plan.launch_plan import LaunchPlan


def check(name: str, plan: LaunchPlan, here: bool) -> Iterator[Diagnostic]:
    if plan.run.keep and plan.run.storage == "node":
        because = "jobctl clean would remove old runs on the submit host, and leave them on all others"
        yield Diagnostic(
            "JC4416", "keep_runs does not remove runs on the hosts", because, "keep_runs=0", key="keep_runs"
        )
