"""JC4511: backend.deadline is 0 or shorter than the time limit."""

from __future__ import annotations

from collections.abc import Iterator

from ....compiler.diagnostics.diagnostic import Diagnostic
from ....compiler.plan.launch_plan import LaunchPlan
from ..options import KubernetesOptions


def check(plan: LaunchPlan, options: KubernetesOptions) -> Iterator[Diagnostic]:
    limit = plan.lifecycle.time_limit_s + plan.lifecycle.kill_after_s
    if options.deadline == 0:
        title, because = "backend.deadline is 0", "Kubernetes would end the pods immediately; the minimum is 1s"
        hint = "backend.deadline=null, for no deadline"
        yield Diagnostic("JC4511", title, because, hint, key="backend.deadline")
        return
    if options.deadline is not None and plan.lifecycle.time_limit_s and options.deadline < limit:
        because = "it would end the pods while an attempt is still within its time limit"
        hint = f"backend.deadline=null, or at least backend.deadline={limit}s"
        yield Diagnostic(
            "JC4511", "backend.deadline is shorter than the time limit", because, hint, key="backend.deadline"
        )
