"""JC4705: more GPUs per node than most machines have, at a site whose profile has no number. This is a warning."""

from __future__ import annotations

from collections.abc import Iterator

from ....compiler.diagnostics.diagnostic import Diagnostic, Severity
from ....compiler.plan.launch_plan import LaunchPlan
from ..._shared.gpus import USUAL_GPUS, spread_over_nodes
from ..options import SkypilotOptions
from ._gpus import requested_plain_gpus


def check(plan: LaunchPlan, options: SkypilotOptions) -> Iterator[Diagnostic]:
    count = plan.topology.gpus
    for request in requested_plain_gpus(plan, options):
        if request.is_site and options.most_gpus is None and USUAL_GPUS < count <= request.most:
            because = f"few machines have more than {USUAL_GPUS}, and SkyPilot only checks at launch; gpus is per node"
            fewer = spread_over_nodes(count, plan.topology.nodes, USUAL_GPUS)
            hint = f"{fewer}, or site.gpus={count} in the cluster profile if the machines have that many"
            title = f"gpus={count} is too many {request.type} for one node"
            yield Diagnostic("JC4705", title, because, hint, key="gpus", severity=Severity.WARNING)
