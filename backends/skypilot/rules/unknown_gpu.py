"""JC4704: a type of GPU that nobody knows; a warning on a site, which may have called its own so."""

from __future__ import annotations

from collections.abc import Iterator

from ....compiler.diagnostics.diagnostic import Diagnostic, Severity, nearest
from ....compiler.plan.launch_plan import LaunchPlan
from ..._shared.gpus import GPUS
from ..options import SkypilotOptions
from ._gpus import counted


def check(plan: LaunchPlan, options: SkypilotOptions) -> Iterator[Diagnostic]:
    told = set()
    for each in counted(plan, options):
        if each.type in GPUS or (each.key, each.type) in told:
            continue
        told.add((each.key, each.type))
        near = nearest(each.type.upper(), GPUS)
        because = "SkyPilot takes any name, and finds none when it launches"
        hint = f"gpu_type={near[0]}" if near else "gpu_type=H100; `sky gpus list` shows them"
        severity = Severity.WARNING if each.is_site else Severity.ERROR
        yield Diagnostic("JC4704", f"no GPU {each.type} is known", because, hint, key=each.key, severity=severity)
