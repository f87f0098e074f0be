"""JC2004: the training length, or the interval between saves, is set in both steps and epochs, or in neither."""

from __future__ import annotations

from collections.abc import Iterator

from ...diagnostics.diagnostic import Diagnostic
from ...spec.job_spec import JobSpec


def check(spec: JobSpec) -> Iterator[Diagnostic]:
    loop, saves = spec.loop, spec.checkpoint
    yield from _check("loop.steps", loop.steps, "loop.epochs", loop.epochs, "training would never end")
    keys = "checkpoint.every_steps", "checkpoint.every_epochs"
    yield from _check(keys[0], saves.every_steps, keys[1], saves.every_epochs, "only the final state would be saved")


def _check(
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
