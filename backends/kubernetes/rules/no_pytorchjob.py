"""JC4509: a PyTorchJob, whose pods restart one by one."""

from __future__ import annotations

from collections.abc import Iterator

from ....compiler.diagnostics.diagnostic import Diagnostic
from ....compiler.plan.launch_plan import LaunchPlan
from ..options import KubernetesOptions


def check(plan: LaunchPlan, options: KubernetesOptions) -> Iterator[Diagnostic]:
    if options.flavor == "pytorchjob":
        because = "it restarts pods one by one, and the others wait for ranks that have lost them"
        hint = "backend.flavor=trainjob with Kubeflow Trainer 2, or backend.flavor=jobset"
        yield Diagnostic("JC4509", "PyTorchJob is not emitted", because, hint, key="backend.flavor")
