"""JC4712: queue options that are ignored, because the infrastructure has no scheduler that supports them."""

from __future__ import annotations

from collections.abc import Iterator

from ....compiler.diagnostics.diagnostic import Diagnostic, Severity
from ....compiler.plan.launch_plan import LaunchPlan
from ..config import cloud
from ..options import SkypilotOptions
from ._infras import infras


def check(plan: LaunchPlan, options: SkypilotOptions) -> Iterator[Diagnostic]:
    wishes = {
        f"queue.{n}": getattr(plan.queue, n)
        for n in ("account", "qos", "reservation", "nodelist", "exclude", "exclusive", "after")
    }
    wishes["hosts"] = plan.resources.hosts
    is_slurm = options.cloud == "slurm"
    if cloud(plan, options) not in ("slurm", "kubernetes") or (
        is_slurm and any("/" not in i for _, i in infras(options))
    ):
        wishes["queue.name"] = plan.queue.name
    for key, value in wishes.items():
        if value and (not is_slurm or key == "queue.name"):
            infra = options.infra or cloud(plan, options) or "any"
            because = f"infra {infra} does not support it; the job computes the same results without it"
            hint = f"remove {key}, or backend.infra=slurm/CLUSTER"
            yield Diagnostic("JC4712", f"{key} is ignored", because, hint, key=key, severity=Severity.NOTE)
