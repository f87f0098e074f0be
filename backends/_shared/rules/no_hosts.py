"""JC4401: no hosts are set for a backend that runs commands on hosts."""

from __future__ import annotations

from collections.abc import Iterator

from ....compiler.diagnostics.diagnostic import Diagnostic
from ....compiler.plan.launch_plan import LaunchPlan
from ..hosts import used_hosts


def check(name: str, plan: LaunchPlan, here: bool) -> Iterator[Diagnostic]:
    alone = here and plan.topology.nodes == 1
    if not used_hosts(plan) and not alone:
        because = f"{name} starts processes on a list of hosts"
        example = f"'hosts=node[1-{plan.topology.nodes}]'" if plan.topology.nodes > 1 else "hosts=node1"
        hint = f"{example}, or hosts=@FILE with one host per line"
        yield Diagnostic("JC4401", f"backend {name} needs hosts", because, hint, key="hosts")
