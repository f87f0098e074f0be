"""JC4307: backend.mpi is ignored, because the launcher starts the ranks itself."""

from __future__ import annotations

from collections.abc import Iterator

from ....compiler.diagnostics.diagnostic import Diagnostic, Severity
from ....compiler.plan.launch_plan import LaunchPlan
from ..options import SlurmOptions


def check(plan: LaunchPlan, options: SlurmOptions) -> Iterator[Diagnostic]:
    if options.mpi != "none" and plan.launcher != "srun":
        title = f"ignored: backend.mpi={options.mpi} with launcher={plan.launcher}"
        because = "srun then starts one task per node, and each node would be one MPI rank"
        yield Diagnostic("JC4307", title, because, "launcher=srun", key="backend.mpi", severity=Severity.NOTE)
