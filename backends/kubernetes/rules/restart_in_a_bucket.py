"""JC4520: a restart in place with runs in a bucket: the pods agree on it in a folder that all see."""

from __future__ import annotations

from collections.abc import Iterator

from ....compiler.diagnostics.diagnostic import Diagnostic
from ....compiler.plan.launch_plan import LaunchPlan
from ..options import KubernetesOptions


def check(plan: LaunchPlan, options: KubernetesOptions) -> Iterator[Diagnostic]:
    if plan.run.storage == "object" and plan.lifecycle.max_restarts and plan.topology.nodes > 1:
        because = "the pods agree on a restart in a run folder that all see; in a bucket the next attempt begins"
        hint = "lifecycle.max_restarts=0 with lifecycle.max_requeues, or storage.run=shared"
        yield Diagnostic("JC4520", "no restart in place", because, hint, key="lifecycle.max_restarts")
