"""JC4703: GPUs without gpu_type."""

from __future__ import annotations

from collections.abc import Iterator

from ....compiler.diagnostics.diagnostic import Diagnostic, Severity
from ....compiler.plan.launch_plan import LaunchPlan
from ..options import SkypilotOptions
from ..task import open_types
from ._gpus import requested_gpus


def check(plan: LaunchPlan, options: SkypilotOptions) -> Iterator[Diagnostic]:
    if not plan.topology.gpus or requested_gpus(plan, options) or options.instance_type is not None:
        return
    because = "SkyPilot requests GPUs by name, such as H100:8"
    if types := open_types(plan, options):
        title = f"gpu_type is not set: SkyPilot chooses the cheapest of {', '.join(types)} (backend.gpu_types)"
        yield Diagnostic("JC4703", title, because, "gpu_type=H100", key="gpu_type", severity=Severity.WARNING)
    else:
        yield Diagnostic("JC4703", "gpus needs gpu_type", because, "gpu_type=H100", key="gpu_type")
