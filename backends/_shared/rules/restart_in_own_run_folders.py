"""JC4417: lifecycle.max_restarts is set although each host has its own run folder."""

from __future__ import annotations

from collections.abc import Iterator

from ....compiler.diagnostics.diagnostic import Diagnostic
from ....compiler.plan.launch_plan import LaunchPlan


def check(name: str, plan: LaunchPlan, here: bool) -> Iterator[Diagnostic]:
    if plan.lifecycle.max_restarts and plan.topology.nodes > 1 and plan.run.storage == "node":
        because = "nodes coordinate a restart through a shared run folder"
        hint = "lifecycle.max_restarts=0, or storage.run=shared"
        yield Diagnostic(
            "JC4417", "lifecycle.max_restarts is not supported here", because, hint, key="lifecycle.max_restarts"
        )
