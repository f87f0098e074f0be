"""Memory, shared memory and disk: JC2120, JC2126, JC2129, JC2131, JC2133."""

import math
from collections.abc import Iterator

from ...diagnostics.diagnostic import Diagnostic
from ...plan.launch_plan import LaunchPlan
from ...spec.job_spec import JobSpec
from ...spec.value_types import format_bytes
from ..figures import Figures, size_text
from ..limits import SizeFinding, make_size_finding
from ..memory_hint import hint_to_fit_on_gpu
from ..training_length import fewer_checkpoints_hint

_GIB = 1 << 30
_MIB = 1024**2


def check_memory_exceeds_gpu(figures: Figures, spec: JobSpec, plan: LaunchPlan) -> Iterator[SizeFinding]:
    """JC2120: a rank needs more memory than its GPU has."""
    needs, has = figures.memory, spec.estimate.gpu_mem
    if needs and has and figures.gpus and needs.least > has:
        title = f"a rank needs more memory than the {format_bytes(has)} of a GPU"
        optional_parts = [part for part in ("optimizer", "activations") if part not in needs.unknown_parts]
        *parts, last = ["weights", "gradients", *optional_parts]
        because = f"{', '.join(parts)} and {last} take about {size_text(needs.total)}"
        hint = hint_to_fit_on_gpu(spec, plan, has)
        yield make_size_finding("JC2120", title, because, hint, "estimate.gpu_mem", needs.total / has)


def check_resume_exceeds_node_memory(figures: Figures, spec: JobSpec, plan: LaunchPlan) -> Iterator[SizeFinding]:
    """JC2133: resuming a sharded model needs more CPU memory than the job requests."""
    needs, has = figures.resuming, figures.mem
    if needs and has and needs > has:
        title = f"resuming takes about {size_text(needs)} of a node's memory, but mem is {format_bytes(has)}"
        procs = plan.topology.procs
        because = f"a checkpoint contains the whole model, and each of a node's {procs} ranks reads all of it"
        hint = f"mem={format_bytes(math.ceil(1.1 * needs / _GIB) * _GIB)}"
        yield make_size_finding("JC2133", title, because, hint, "mem", needs / has)


def check_batches_exceed_shared_memory(figures: Figures, spec: JobSpec, plan: LaunchPlan) -> Iterator[SizeFinding]:
    """JC2131: the loader workers' prefetched batches need more space than /dev/shm has."""
    needed, has = figures.batches, figures.shm
    if not needed or not has or needed <= has:
        return
    rounded = -(-needed // _MIB) * _MIB
    fits = figures.mem is None or rounded < figures.mem
    hint = f"shm={format_bytes(rounded)}" if fits else "loader.workers=0, so that each rank reads its own samples"
    title = f"batches of {size_text(needed)} do not fit in {format_bytes(has)} of shared memory"
    because = "a node's loader workers use up to this much, and are killed by SIGBUS when /dev/shm is full"
    yield make_size_finding("JC2131", title, because, hint, "shm", needed / has)


def check_disk_exceeds_free_space(figures: Figures, spec: JobSpec, plan: LaunchPlan) -> Iterator[SizeFinding]:
    """JC2126: a run's checkpoints need more disk space than is free."""
    needed, has = figures.checkpoint_bytes, spec.estimate.disk
    if has and needed and figures.memory and (size := figures.memory.checkpoint) and needed > has:
        title = f"checkpoints need more than the {format_bytes(has)} free in the run root"
        count = figures.checkpoints
        because = f"up to {count} checkpoints of {size_text(size)} exist at once, {size_text(needed)} in total"
        hint = fewer_checkpoints_hint(spec.checkpoint, figures.schedule, has // size)
        yield make_size_finding("JC2126", title, because, hint, "estimate.disk", needed / has)


def check_unit_exceeds_model(figures: Figures, spec: JobSpec, plan: LaunchPlan) -> Iterator[SizeFinding]:
    """JC2129: the largest unit has more parameters than the model."""
    unit, parameters = spec.estimate.largest_unit, spec.estimate.parameters
    if unit is None or parameters is None or unit <= (n := round(parameters)):
        return
    title = f"estimate.largest_unit={unit:,} is larger than the model, which has {n:,} parameters"
    because = "the largest unit is a part of the model (estimate.parameters)"
    key = "estimate.largest_unit"
    hint = f"{key}={n}, if the whole model is gathered at once"
    yield SizeFinding(Diagnostic("JC2129", title, because, hint, key=key), unit / n)
