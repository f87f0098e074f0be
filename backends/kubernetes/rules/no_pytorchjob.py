"""JC4509: a PyTorchJob is not supported, because its pods restart one at a time."""

from __future__ import annotations

from collections.abc import Iterator

from ....compiler.diagnostics.diagnostic import Diagnostic
from ....compiler.plan.launch_plan import LaunchPlan
from ..options import KubernetesOptions


def check(plan: LaunchPlan, options: KubernetesOptions) -> Iterator[Diagnostic]:
    if options.flavor == "pytorchjob":
        because = "it restarts pods one at a time, while the other pods hang in their old process group"
        hint = "backend.flavor=trainjob with Kubeflow Trainer 2, or backend.flavor=jobset"
        yield Diagnostic("JC4509", "backend.flavor=pytorchjob is not supported", because, hint, key="backend.flavor")
