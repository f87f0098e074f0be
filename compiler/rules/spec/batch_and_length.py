"""Batch size, training length and checkpoint interval: JC2002 to JC2004, JC2026."""

from collections.abc import Iterator

from ...diagnostics.diagnostic import Diagnostic
from ...plan.derive import data_ranks, world_size
from ...spec.job_spec import JobSpec


def check_accumulation_contradicts_batch(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2002: a global batch and an accumulation that contradict each other."""
    micro, accumulation, total, ranks = spec.batch.micro, spec.batch.accumulation, spec.batch.global_, data_ranks(spec)
    product = micro * (accumulation or 1) * ranks
    if total is not None and accumulation is not None and product != total:
        title = f"batch.global={total} contradicts batch.accumulation={accumulation}"
        because = f"micro {micro} x accumulation {accumulation} x {_describe_data_ranks(spec)} = {product}"
        hint = "batch.accumulation=null, to have it computed"
        yield Diagnostic("JC2002", title, because, hint, key="batch.global")


def check_batch_not_divisible(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2003: a global batch that cannot be split over the ranks."""
    micro, total, ranks = spec.batch.micro, spec.batch.global_, data_ranks(spec)
    if total is not None and spec.batch.accumulation is None and total % (micro * ranks):
        unit = micro * ranks
        below, above = total // unit * unit, (total // unit + 1) * unit
        title = f"batch.global={total} cannot be split over {_describe_data_ranks(spec)}"
        because = f"batch.global must be a multiple of micro {micro} x {_describe_data_ranks(spec)} = {unit}"
        hint = f"batch.global={below} or {above}" if below else f"batch.global={above}"
        yield Diagnostic("JC2003", title, because, hint, key="batch.global")


def check_samples_shared_by_ranks(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2026: ranks share samples in a job that uses the bundled trainer, or the number of ranks is not divisible by
    the group size.
    """
    shared_by, world = spec.batch.shared_by, world_size(spec)
    if shared_by == 1:
        return
    key, title = "batch.shared_by", f"batch.shared_by={shared_by}"
    if spec.command is None:
        because = "the bundled trainer has no context or tensor parallelism, so each rank has its own samples"
        hint = "batch.shared_by=1; your own program may share samples: -- train.py"
        yield Diagnostic("JC2026", f"{title} needs your own program", because, hint, key=key)
    elif world % shared_by:
        because = f"the job has {world} rank{'s' * (world > 1)}, and each group of ranks must be complete"
        yield Diagnostic("JC2026", f"{title} does not divide the ranks", because, "batch.shared_by=1", key=key)


def _describe_data_ranks(spec: JobSpec) -> str:
    """Return `1 rank` or `8 ranks`, or `4 groups of 2 ranks` with batch.shared_by=2."""
    count, shared_by = data_ranks(spec), spec.batch.shared_by
    if shared_by > 1:
        return f"{count} group{'s' * (count > 1)} of {shared_by} ranks"
    return f"{count} rank{'s' * (count > 1)}"


def check_steps_or_epochs(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2004: the training length, or the interval between saves, is set in both steps and epochs, or in neither."""
    loop, saves = spec.loop, spec.checkpoint
    yield from _check_exactly_one("loop.steps", loop.steps, "loop.epochs", loop.epochs, "training would never end")
    keys = "checkpoint.every_steps", "checkpoint.every_epochs"
    if_neither = "only the final state would be saved"
    yield from _check_exactly_one(keys[0], saves.every_steps, keys[1], saves.every_epochs, if_neither)


def _check_exactly_one(
    in_steps: str, steps: int | None, in_epochs: str, epochs: int | None, if_neither: str
) -> Iterator[Diagnostic]:
    """Yield an error unless exactly one is set. in_steps, in_epochs: the keys"""
    title = f"set exactly one of {in_steps} and {in_epochs}"
    if steps is None and epochs is None:
        yield Diagnostic("JC2004", title, f"neither key is set, so {if_neither}", f"{in_steps}=400", key=in_epochs)
    elif steps is not None and epochs is not None:
        hint = f"{in_steps}=null, for {epochs} epochs, or {in_epochs}=null"
        because = "both keys are set, and each defines a different number of steps"
        yield Diagnostic("JC2004", title, because, hint, key=in_epochs)
