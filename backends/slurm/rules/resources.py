"""Cores, memory, time and dependencies: JC4302, JC4304, JC4305, JC4306, JC4310."""

from collections.abc import Iterator

from ....compiler.diagnostics.diagnostic import Diagnostic, Severity, nearest
from ....compiler.plan.launch_plan import LaunchPlan
from ..._shared.sbatch_options import AFTER
from ..option_values import EARLY_S, seconds_before_limit, tasks_per_node
from ..options import SlurmOptions

USUAL = 8  # cores per GPU, for the hint


def check_gpus_without_cores(plan: LaunchPlan, options: SlurmOptions) -> Iterator[Diagnostic]:
    """JC4306: GPUs without `cpus`. Slurm then allocates only one core per task, unless the site configures more."""
    gpus = plan.topology.gpus
    if gpus and not plan.resources.cpus and not plan.queue.exclusive:
        title = f"gpus={gpus} without cpus"
        because = "without DefCpuPerGPU, Slurm gives each task one core, which all of a node's ranks share"
        hint = f"cpus={gpus * USUAL}, for {USUAL} cores per GPU; or site.cpus and site.gpus in the cluster profile"
        yield Diagnostic("JC4306", title, because, hint, key="gpus", severity=Severity.WARNING)


def check_unequal_shares(plan: LaunchPlan, options: SlurmOptions) -> Iterator[Diagnostic]:
    """JC4304: cores that the tasks cannot share evenly. --cpus-per-task is one number, so some would stay unused."""
    cpus, tasks = plan.resources.cpus, tasks_per_node(plan)
    if cpus is not None and cpus % tasks:
        title = f"cpus={cpus} cannot be divided evenly among {tasks} tasks per node"
        because = "launcher=srun starts one task per rank, and Slurm gives each task the same number of cores"
        hint = f"cpus={max(cpus - cpus % tasks, tasks)}, or launcher=torchrun"
        yield Diagnostic("JC4304", title, because, hint, key="cpus")


def check_ignored_memory(plan: LaunchPlan, options: SlurmOptions) -> Iterator[Diagnostic]:
    """JC4302: `mem` is ignored, because backend.mem_policy leaves memory to the site."""
    if options.mem_policy != "given" and plan.resources.mem_bytes is not None:
        because = f"backend.mem_policy={options.mem_policy} uses the site's default memory"
        yield Diagnostic("JC4302", "mem has no effect", because, "mem=null, or backend.mem_policy=given", key="mem")


def check_no_time_to_save(plan: LaunchPlan, options: SlurmOptions) -> Iterator[Diagnostic]:
    """JC4305: a time limit so short that Slurm's signal could arrive right at the start."""
    limit, notice = plan.lifecycle.time_limit_s, seconds_before_limit(plan)
    if 0 < limit <= notice:
        title = f"time={limit}s leaves no time to save"
        parts = f"the grace period, 10 s to exit, and {EARLY_S} s by which Slurm may signal early"
        because = f"Slurm can send its signal up to {notice} s before the limit: {parts}"
        hint = f"time={notice // 60 + 1}m" + (", or a shorter lifecycle.grace" if plan.lifecycle.grace_s > 5 else "")
        yield Diagnostic("JC4305", title, because, hint, key="time")


def check_unknown_dependency(plan: LaunchPlan, options: SlurmOptions) -> Iterator[Diagnostic]:
    """JC4310: a kind of dependency that Slurm does not support."""
    for entry in plan.queue.after:
        kind, colon, ids = entry.partition(":")
        if colon and kind not in AFTER:
            because = f"a dependency is an ID, singleton, or KIND:ID with one of {', '.join(AFTER)}"
            hint = f"queue.after=[{next(iter(nearest(kind, AFTER[1:], 1)), 'afterany')}:{ids}]"
            yield Diagnostic("JC4310", f"queue.after: Slurm has no dependency {kind}", because, hint, key="queue.after")
