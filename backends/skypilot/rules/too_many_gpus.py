"""JC4705: more GPUs per node than any machine has."""

from __future__ import annotations

from collections.abc import Iterator

from ....compiler.diagnostics.diagnostic import Diagnostic
from ....compiler.plan.launch_plan import LaunchPlan
from ..._shared.gpus import GPUS
from ..options import SkypilotOptions
from ._gpus import requested_plain_gpus


def check(plan: LaunchPlan, options: SkypilotOptions) -> Iterator[Diagnostic]:
    count = plan.topology.gpus
    for request in requested_plain_gpus(plan, options):
        if count > request.most:
            usual = min(request.most, GPUS.get(request.type, 8))
            because = f"a machine has at most {request.most} of them, and gpus is per node"
            hint = f"nodes={-(-count * plan.topology.nodes // usual)} gpus={usual}"
            yield Diagnostic(
                "JC4705", f"gpus={count} is too many {request.type} for one node", because, hint, key="gpus"
            )
