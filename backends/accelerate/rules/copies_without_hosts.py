"""JC4601: storage.run=node is set, but there are no hosts to copy runs to."""

from __future__ import annotations

from collections.abc import Iterator

from ....compiler.diagnostics.diagnostic import Diagnostic
from ....compiler.plan.launch_plan import LaunchPlan
from ..._shared import hosts
from ..options import AccelerateOptions


def check(plan: LaunchPlan, options: AccelerateOptions) -> Iterator[Diagnostic]:
    if not hosts.used_hosts(plan) and plan.run.storage == "node":
        because = "without hosts the only node is this machine, which already has the run folder"
        yield Diagnostic(
            "JC4601", "storage.run=node has no effect without hosts", because, "storage.run=shared", key="storage.run"
        )
