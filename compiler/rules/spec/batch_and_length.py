"""Batch size, training length and checkpoint interval: JC2002 to JC2004."""

from collections.abc import Iterator

from ...diagnostics.diagnostic import Diagnostic
from ...plan.derive import world_size
from ...spec.job_spec import JobSpec


def check_accumulation_contradicts_batch(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2002: a global batch and an accumulation that contradict each other."""
    micro, accumulation, total, world = spec.batch.micro, spec.batch.accumulation, spec.batch.global_, world_size(spec)
    if total is not None and accumulation is not None and micro * accumulation * world != total:
        yield Diagnostic(
            "JC2002",
            f"batch.global={total} contradicts batch.accumulation={accumulation}",
            f"micro {micro} x accumulation {accumulation} x {world} ranks = {micro * accumulation * world}",
            "batch.accumulation=null, to have it computed",
            key="batch.global",
        )


def check_batch_not_divisible(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2003: a global batch that cannot be split over the ranks."""
    micro, total, world = spec.batch.micro, spec.batch.global_, world_size(spec)
    if total is not None and spec.batch.accumulation is None and total % (micro * world):
        unit = micro * world
        below, above = total // unit * unit, (total // unit + 1) * unit
        nearest = f"batch.global={below} or {above}" if below else f"batch.global={above}"
        yield Diagnostic(
            "JC2003",
            f"batch.global={total} cannot be split over {world} rank{'s' * (world > 1)}",
            f"batch.global must be a multiple of micro {micro} x {world} ranks = {unit}",
            nearest,
            key="batch.global",
        )


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
