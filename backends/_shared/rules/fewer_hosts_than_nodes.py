"""JC4403: fewer hosts in queue.nodelist than nodes. The number of `hosts` is checked for every backend."""

from __future__ import annotations

from collections.abc import Iterator

from ....compiler.diagnostics.diagnostic import Diagnostic
from ....compiler.plan.launch_plan import LaunchPlan
from ..hosts import used_hosts


def check(name: str, plan: LaunchPlan, here: bool) -> Iterator[Diagnostic]:
    hosts, nodes = used_hosts(plan), plan.topology.nodes
    if 0 < len(hosts) < nodes:
        title = f"{len(hosts)} host{'s' * (len(hosts) > 1)} in queue.nodelist for {nodes} nodes"
        because = f"{name} can only use these hosts, and each node needs its own"
        yield Diagnostic("JC4403", title, because, f"nodes={len(hosts)}, or name more hosts", key="queue.nodelist")
