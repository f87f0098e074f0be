"""JC4711: an image on Slurm takes a plugin; a note where nobody has said whether it is there."""

from __future__ import annotations

from collections.abc import Iterator

from ....compiler.diagnostics.diagnostic import Diagnostic, Severity
from ....compiler.plan.launch_plan import LaunchPlan
from ..config import cloud
from ..options import SkypilotOptions


def check(plan: LaunchPlan, options: SkypilotOptions) -> Iterator[Diagnostic]:
    if plan.container.image is None or cloud(plan, options) != "slurm" or options.pyxis:
        return
    without = "image=null container=none python=venv"
    if options.pyxis is None:
        because = "SkyPilot refuses it when it launches, unless this Slurm has the plugin Pyxis"
        hint = f"`srun --help | grep container-image` there tells; then backend.pyxis=true, else {without}"
        yield Diagnostic("JC4711", "an image on slurm", because, hint, key="image", severity=Severity.NOTE)
    else:
        because = "this Slurm has no plugin Pyxis (backend.pyxis=false), and SkyPilot refuses images there"
        yield Diagnostic("JC4711", "slurm runs no image", because, without, key="image")
