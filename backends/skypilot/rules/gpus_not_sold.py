"""JC4705: a GPU count or type that none of the cloud's machines have.

A warning, because clouds' offers change.
"""

from __future__ import annotations

from collections.abc import Iterator

from ....compiler.diagnostics.diagnostic import Diagnostic, Severity, alternatives
from ....compiler.plan.launch_plan import LaunchPlan
from ..._shared.gpus import clouds_offering, offered_gpu_counts
from ..options import SkypilotOptions
from ._gpus import RequestedGpu, requested_plain_gpus

LATE = "and SkyPilot would find none at launch"


def check(plan: LaunchPlan, options: SkypilotOptions) -> Iterator[Diagnostic]:
    count = plan.topology.gpus
    if not count or options.instance_type is not None:
        return
    for request in requested_plain_gpus(plan, options):
        if request.cloud and not request.is_site and count <= request.most:
            yield from _not_sold(request, count)


def _not_sold(each: RequestedGpu, count: int) -> Iterator[Diagnostic]:
    numbers = offered_gpu_counts(each.cloud, each.type)
    if numbers is None or count in numbers:
        return
    if numbers:
        because = f"machines are offered with {alternatives(map(str, numbers))} of them, {LATE}"
        near = [*[n for n in numbers if n < count][-1:], *[n for n in numbers if n > count][:1]]
        hints = [f"gpus={number}" for number in near]
    else:
        because = f"it offers other types, {LATE}"
        hints = [f"backend.infra={name}" for name in clouds_offering(each.type)] or ["gpu_type=H100"]
    title = f"no known {each.cloud} machine has {count} {each.type}"
    yield Diagnostic("JC4705", title, because, alternatives(hints), key="gpus", severity=Severity.WARNING)
