"""JC4404: the first host is a name such as localhost, which every node resolves to itself."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ....compiler.diagnostics.diagnostic import Diagnostic
from ....compiler.plan.launch_plan import LaunchPlan
from ..hosts import used_hosts


def check(name: str, plan: LaunchPlan, here: bool) -> Iterator[Diagnostic]:
    hosts, nodes = used_hosts(plan), plan.topology.nodes
    if 1 < nodes <= len(hosts) and re.match(r"localhost\b|127\.", hosts[0].rpartition("@")[2]):
        title, because = (
            f"node 0 is {hosts[0]}",
            "every other node would resolve that name to itself, so the rendezvous would fail",
        )
        hint = "use the name by which the other nodes reach this machine"
        yield Diagnostic("JC4404", title, because, hint, key="hosts")
