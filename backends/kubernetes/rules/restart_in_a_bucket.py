"""JC4520: a restart in place with runs in a bucket. Such a restart requires a folder that all pods share."""

from __future__ import annotations

from collections.abc import Iterator

from ....compiler.diagnostics.diagnostic import Diagnostic
from ....compiler.plan.launch_plan import LaunchPlan
from ..options import KubernetesOptions


def check(plan: LaunchPlan, options: KubernetesOptions) -> Iterator[Diagnostic]:
    if plan.run.storage == "object" and plan.lifecycle.max_restarts and plan.topology.nodes > 1:
        because = "pods coordinate a restart through a shared run folder; with a bucket, they can only be requeued"
        hint = "lifecycle.max_restarts=0 with lifecycle.max_requeues, or storage.run=shared"
        yield Diagnostic(
            "JC4520", "lifecycle.max_restarts is not supported here", because, hint, key="lifecycle.max_restarts"
        )
