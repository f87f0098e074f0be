"""JC4704: an unknown GPU type; a warning on a site, which may use its own names."""

from __future__ import annotations

from collections.abc import Iterator

from ....compiler.diagnostics.diagnostic import Diagnostic, Severity, nearest
from ....compiler.plan.launch_plan import LaunchPlan
from ..._shared.gpus import GPUS
from ..options import SkypilotOptions
from ._gpus import requested_plain_gpus


def check(plan: LaunchPlan, options: SkypilotOptions) -> Iterator[Diagnostic]:
    reported = set()
    for request in requested_plain_gpus(plan, options):
        if request.type in GPUS or (request.key, request.type) in reported:
            continue
        reported.add((request.key, request.type))
        near = nearest(request.type.upper(), GPUS)
        because = "SkyPilot accepts any name, but would not find this GPU at launch"
        hint = f"gpu_type={near[0]}" if near else "gpu_type=H100; `sky gpus list` shows them"
        severity = Severity.WARNING if request.is_site else Severity.ERROR
        yield Diagnostic(
            "JC4704", f"GPU type {request.type} is unknown", because, hint, key=request.key, severity=severity
        )
