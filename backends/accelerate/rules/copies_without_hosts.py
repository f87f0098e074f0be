"""JC4601: runs to be copied to hosts, and no hosts."""

from __future__ import annotations

from collections.abc import Iterator

from ....compiler.diagnostics.diagnostic import Diagnostic
from ....compiler.plan.launch_plan import LaunchPlan
from ..._shared import hosts
from ..options import AccelerateOptions


def check(plan: LaunchPlan, options: AccelerateOptions) -> Iterator[Diagnostic]:
    if not hosts.used_hosts(plan) and plan.run.storage == "node":
        because = "without hosts the one node is this machine, which sees the run folder anyway"
        yield Diagnostic("JC4601", "no host to copy the run to", because, "storage.run=shared", key="storage.run")
