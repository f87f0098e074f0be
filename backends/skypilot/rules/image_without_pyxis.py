"""JC4711: an image on Slurm needs Pyxis; a note if backend.pyxis is unset."""

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
        because = "SkyPilot rejects it at launch unless this Slurm has the Pyxis plugin"
        hint = f"check with `srun --help | grep container-image`; then backend.pyxis=true, otherwise {without}"
        yield Diagnostic("JC4711", "image needs Pyxis on slurm", because, hint, key="image", severity=Severity.NOTE)
    else:
        because = "this Slurm does not have Pyxis (backend.pyxis=false), and SkyPilot rejects images without it"
        yield Diagnostic("JC4711", "image is not supported on this slurm", because, without, key="image")
