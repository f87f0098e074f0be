"""JC4704: a number of GPUs in gpu_type, as in SkyPilot's own `H100:8`."""

from __future__ import annotations

from collections.abc import Iterator

from ....compiler.diagnostics.diagnostic import Diagnostic
from ....compiler.plan.launch_plan import LaunchPlan
from ..options import SkypilotOptions
from ._gpus import requested_gpus


def check(plan: LaunchPlan, options: SkypilotOptions) -> Iterator[Diagnostic]:
    for request in requested_gpus(plan, options):
        if ":" in request.type:
            because = "gpus sets the number, in whole GPUs: the trainer uses one per rank"
            hint = f"gpu_type={request.type.partition(':')[0]} gpus={max(plan.topology.gpus, 1)}"
            yield Diagnostic("JC4704", f"{request.type} is not a GPU type", because, hint, key=request.key)
