"""JC4505: more GPUs per node than any machine has (error) or than most machines have (warning)."""

from __future__ import annotations

from collections.abc import Iterator

from ....compiler.diagnostics.diagnostic import Diagnostic, Severity
from ....compiler.plan.launch_plan import LaunchPlan
from ..._shared.gpus import MOST_GPUS, USUAL_GPUS, max_gpus_at_site, max_gpus_in_cloud, spread_over_nodes
from ..options import KubernetesOptions


def check(plan: LaunchPlan, options: KubernetesOptions) -> Iterator[Diagnostic]:
    count, kind = plan.topology.gpus, plan.resources.gpu_type
    most = (max_gpus_at_site(kind) if kind else None) or MOST_GPUS
    usual = min(USUAL_GPUS, (max_gpus_in_cloud(kind) if kind else None) or USUAL_GPUS)
    if count <= usual:
        return
    of = f" of type {kind}" if kind else ""
    rare = count <= most
    some = f"few machines have more than {usual}{of}" if rare else f"no machine has more than {most}{of}"
    because = f"{some}, and pods that do not fit on any node stay Pending; gpus is per node, 1 to {usual}"
    hint = spread_over_nodes(count, plan.topology.nodes, usual)
    severity = Severity.WARNING if rare else Severity.ERROR
    yield Diagnostic(
        "JC4505", f"gpus={count}{of} is too many for one node", because, hint, key="gpus", severity=severity
    )
