"""JC4332: environment modules, which would never be loaded with Pyxis."""

from __future__ import annotations

from collections.abc import Iterator

from ....compiler.diagnostics.diagnostic import Diagnostic
from ....compiler.plan.launch_plan import LaunchPlan
from ..options import SlurmOptions


def check(plan: LaunchPlan, options: SlurmOptions) -> Iterator[Diagnostic]:
    if plan.container.kind == "pyxis" and plan.setup.modules:
        because = "Slurm starts the container before the job's setup, and modules are not available inside"
        hint = "python.modules=[]; or container=apptainer, which loads them first"
        yield Diagnostic("JC4332", "Pyxis cannot load modules", because, hint, key="python.modules")
