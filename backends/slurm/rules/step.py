"""Options of the job's srun command: JC4307, JC4309."""

from collections.abc import Iterator

from ....compiler.diagnostics.diagnostic import Diagnostic, Severity
from ....compiler.plan.launch_plan import LaunchPlan
from ..options import SlurmOptions


def check_mpi_without_srun(plan: LaunchPlan, options: SlurmOptions) -> Iterator[Diagnostic]:
    """JC4307: backend.mpi is ignored, because the launcher starts the ranks itself."""
    if options.mpi != "none" and plan.launcher != "srun":
        title = f"ignored: backend.mpi={options.mpi} with launcher={plan.launcher}"
        because = "srun then starts one task per node, and each node would be one MPI rank"
        yield Diagnostic("JC4307", title, because, "launcher=srun", key="backend.mpi", severity=Severity.NOTE)


def check_task_placement(plan: LaunchPlan, options: SlurmOptions) -> Iterator[Diagnostic]:
    """JC4309: srun options that would give a rank a number or GPU that does not match RANK and LOCAL_RANK."""
    nodes, _, rest = (options.distribution or "").partition(":")
    if plan.launcher == "srun" and plan.topology.nodes > 1 and nodes.lower() not in ("", "*", "block"):
        title = f"backend.distribution={options.distribution} numbers the tasks across the nodes"
        because = "ranks are numbered node by node, so each task's number must be its rank"
        hint = f"backend.distribution=block{rest and ':'}{rest}"
        yield Diagnostic("JC4309", title, because, hint, key="backend.distribution")
    binding = options.gpu_bind
    if binding in (None, "none", "verbose"):
        return
    title = f"backend.gpu_bind={binding} hides GPUs from the ranks"
    hint = "backend.gpu_bind=null"
    if plan.launcher != "srun":
        because = f"with launcher={plan.launcher}, one srun task starts all ranks of a node, which need all its GPUs"
        yield Diagnostic("JC4309", title, because, hint, key="backend.gpu_bind")
    elif plan.uses_trainer and plan.topology.procs > 1:
        because = "the trainer uses the GPU with the number LOCAL_RANK, and each rank would see its own GPU as number 0"
        yield Diagnostic("JC4309", title, because, hint, key="backend.gpu_bind")
