"""JC4707: a restart in place without a shared run folder, through which the nodes coordinate it."""

from __future__ import annotations

from collections.abc import Iterator

from ....compiler.diagnostics.diagnostic import Diagnostic
from ....compiler.plan.launch_plan import LaunchPlan
from ..options import SkypilotOptions


def check(plan: LaunchPlan, options: SkypilotOptions) -> Iterator[Diagnostic]:
    if plan.run.storage != "shared" and plan.lifecycle.max_restarts and plan.topology.nodes > 1:
        because, key = "nodes coordinate a restart through a shared run folder", "lifecycle.max_restarts"
        yield Diagnostic("JC4707", "lifecycle.max_restarts is not supported here", because, f"{key}=0", key=key)
