"""Plan values in the syntax of sbatch and srun options."""

from typing import Any

from ...compiler.plan.launch_plan import LaunchPlan
from .options import SlurmOptions

MIB = 1024**2
EARLY_S = 60  # --signal: "may be sent up to 60 seconds earlier than specified" (sbatch manual, 22.05 to 25.11)


def tasks_per_node(plan: LaunchPlan) -> int:
    """Return the number of tasks that srun starts on each node: one per rank, or a single one that starts all ranks."""
    return plan.topology.procs if plan.launcher == "srun" else 1


def cpus_per_task(plan: LaunchPlan) -> int | None:
    """Return the cores of one task (`cpus` is per node), or None if the site decides."""
    return plan.resources.cpus // tasks_per_node(plan) if plan.resources.cpus else None


def mpi_type(plan: LaunchPlan, options: SlurmOptions) -> str:
    """Return srun's --mpi: "none" unless each rank is a task, because MPI would take each task for a rank."""
    return options.mpi if plan.launcher == "srun" else "none"


def format_option(name: str, value: Any) -> str:
    """Return an option's text: `--switches=1` for `switches: 1`, `--hold` for `hold: true`, "" for null or false."""
    if value is None or value is False:
        return ""
    return f"--{name}" if value is True else f"--{name}={value}"


def memory(size: int) -> str:
    """Return bytes as a value for --mem, rounded up to whole MiB. Slurm's M and G are MiB and GiB."""
    mib = -(-size // MIB)
    return f"{mib // 1024}G" if mib % 1024 == 0 else f"{mib}M"


def duration(seconds: int) -> str:
    """Return seconds as an unambiguous value for --time: D-HH:MM:SS."""
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"{days}-{hours:02}:{minutes:02}:{seconds:02}"


def seconds_before_limit(plan: LaunchPlan) -> int:
    """Return the earliest time at which the signal of --signal may arrive, in seconds before the time limit."""
    return plan.lifecycle.kill_after_s + EARLY_S


def step_tasks_per_node(plan: LaunchPlan) -> str:
    """Return the tasks per node in the format of SLURM_STEP_TASKS_PER_NODE (srun(1)): `4(x2)`, or `4` on one node."""
    nodes, tasks = plan.topology.nodes, tasks_per_node(plan)
    return str(tasks) if nodes == 1 else f"{tasks}(x{nodes})"
