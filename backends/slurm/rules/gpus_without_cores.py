"""JC4306: GPUs without cpus; Slurm gives each task one core, unless the site configures more."""

from __future__ import annotations

from collections.abc import Iterator

from ....compiler.diagnostics.diagnostic import Diagnostic, Severity
from ....compiler.plan.launch_plan import LaunchPlan
from ..options import SlurmOptions

USUAL = 8  # cores per GPU, for the hint


def check(plan: LaunchPlan, options: SlurmOptions) -> Iterator[Diagnostic]:
    gpus = plan.topology.gpus
    if gpus and not plan.resources.cpus and not plan.queue.exclusive:
        title = f"gpus={gpus} without cpus"
        because = "without DefCpuPerGPU, Slurm gives each task one core, which all of a node's ranks share"
        hint = f"cpus={gpus * USUAL}, for {USUAL} cores per GPU; or site.cpus and site.gpus in the cluster profile"
        yield Diagnostic("JC4306", title, because, hint, key="gpus", severity=Severity.WARNING)
