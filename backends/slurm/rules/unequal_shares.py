"""JC4304: cores that the tasks cannot share evenly; --cpus-per-task is one number, so some would stay unused."""

from __future__ import annotations

from collections.abc import Iterator

from ....compiler.diagnostics.diagnostic import Diagnostic
from ....compiler.plan.launch_plan import LaunchPlan
from ..options import SlurmOptions
from ..spelling import tasks_per_node


def check(plan: LaunchPlan, options: SlurmOptions) -> Iterator[Diagnostic]:
    cpus, tasks = plan.resources.cpus, tasks_per_node(plan)
    if cpus is not None and cpus % tasks:
        title = f"cpus={cpus} cannot be divided among {tasks} tasks per node"
        because = "launcher=srun starts one task per rank, and Slurm gives each the same number of cores"
        hint = f"cpus={max(cpus - cpus % tasks, tasks)}, or launcher=torchrun"
        yield Diagnostic("JC4304", title, because, hint, key="cpus")
