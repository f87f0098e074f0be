"""Keys that contradict each other or Slurm: JC4302, JC4304 to JC4307, JC4309 to JC4311, JC4330 to JC4332."""

import re
from collections.abc import Iterator

from ....compiler.api import Diagnostic, LaunchPlan, Severity, nearest
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
        because = "each task's number is its rank, and ranks must be numbered node by node"
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
        because = "the trainer uses the GPU numbered LOCAL_RANK, but each rank would see its own GPU as number 0"
        yield Diagnostic("JC4309", title, because, hint, key="backend.gpu_bind")


def check_gpus_not_requested(plan: LaunchPlan, options: SlurmOptions) -> Iterator[Diagnostic]:
    """JC4311: keys that have no effect because the job requests no GPUs from Slurm."""
    if plan.resources.gpu_type and not plan.topology.gpus:
        title = f"gpu_type={plan.resources.gpu_type} has no effect without gpus"
        because = "gpus is 0, so the job runs on the CPU and requests no GPUs from Slurm"
        hint = "gpus=8, the number on each node; or gpu_type=null"
        yield Diagnostic("JC4311", title, because, hint, key="gpu_type", severity=Severity.WARNING)
    elif plan.resources.gpu_type and options.gpus_as == "none":
        title = f"gpu_type={plan.resources.gpu_type} has no effect with backend.gpus_as=none"
        because = "without a request for GPUs, Slurm does not know which type the job needs"
        hint = "gpu_type=null, and backend.constraint with a feature of the nodes that have these GPUs"
        yield Diagnostic("JC4311", title, because, hint, key="gpu_type")
    if options.gpus_as == "none" and options.gpu_bind not in (None, "none"):
        title = f"backend.gpu_bind={options.gpu_bind} has no effect with backend.gpus_as=none"
        because = "Slurm binds only GPUs that it has allocated to the job"
        yield Diagnostic("JC4311", title, because, "backend.gpu_bind=null", key="backend.gpu_bind")


def check_modules_with_pyxis(plan: LaunchPlan, options: SlurmOptions) -> Iterator[Diagnostic]:
    """JC4332: environment modules together with Pyxis, under which they would never be loaded."""
    if plan.container.kind == "pyxis" and plan.setup.modules:
        because = "Slurm starts the container before the job's setup, and modules are not available in the container"
        hint = "python.modules=[]; or container=apptainer, which loads modules first"
        yield Diagnostic("JC4332", "Pyxis cannot load modules", because, hint, key="python.modules")


def check_pyxis_split_path(plan: LaunchPlan, options: SlurmOptions) -> Iterator[Diagnostic]:
    """JC4330: a mount path that Pyxis would split when it parses its srun option.

    Source: NVIDIA/pyxis 0.24, args.c: mounts are split at commas and colons, and then become words in an fstab line.
    """
    if plan.container.kind != "pyxis":
        return
    paths = {f"mounts.{i}.{n}": getattr(m, n) for i, m in enumerate(plan.mounts) for n in ("source", "target")}
    for key, path in {**paths, "storage.data": plan.run.data or ""}.items():
        if re.search(r"[\s,:\\]", path):
            because = "spaces, commas, colons and backslashes are special in --container-mounts"
            hint = "use another path, such as a symlink"
            yield Diagnostic("JC4330", f"Pyxis cannot mount {path!r}", because, hint, key=key)


def check_relative_pyxis_image(plan: LaunchPlan, options: SlurmOptions) -> Iterator[Diagnostic]:
    """JC4331: an image file given by a relative path, which Pyxis would look for in a registry."""
    if plan.container.kind != "pyxis":
        return
    image = plan.container.image or ""
    if image.startswith(".") or (image.endswith((".sqsh", ".sif")) and not image.startswith("/")):
        because = "each node has a different working directory, and a name without / is pulled from a registry"
        title = f"image {image} is not an absolute path"
        yield Diagnostic("JC4331", title, because, "image=/shared/NAME.sqsh", key="image")
