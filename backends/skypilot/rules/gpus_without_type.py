"""JC4703: GPUs of no type."""

from __future__ import annotations

from collections.abc import Iterator

from ....compiler.diagnostics.diagnostic import Diagnostic
from ....compiler.plan.launch_plan import LaunchPlan
from ..options import SkypilotOptions
from ._gpus import asked


def check(plan: LaunchPlan, options: SkypilotOptions) -> Iterator[Diagnostic]:
    if plan.topology.gpus and not asked(plan, options) and options.instance_type is None:
        because = "SkyPilot requests GPUs by name, such as H100:8"
        yield Diagnostic("JC4703", "gpus needs gpu_type", because, "gpu_type=H100", key="gpu_type")
