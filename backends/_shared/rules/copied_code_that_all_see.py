"""JC4415: code=rsync although all hosts share one copy of the code."""

from __future__ import annotations

from collections.abc import Iterator

from ....compiler.diagnostics.diagnostic import Diagnostic
from ....compiler.plan.launch_plan import LaunchPlan


def check(name: str, plan: LaunchPlan, here: bool) -> Iterator[Diagnostic]:
    if plan.code.kind == "rsync" and plan.run.storage == "shared":
        title = "code=rsync has no effect with storage.run=shared"
        because = "all hosts already share one copy of the code"
        yield Diagnostic("JC4415", title, because, "code=snapshot, or storage.run=node", key="code.kind")
