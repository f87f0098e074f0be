"""JC2004: both steps and epochs are set, or neither, so that the end of training is not defined."""

from __future__ import annotations

from collections.abc import Iterator

from ...diagnostics.diagnostic import Diagnostic
from ...spec.job_spec import JobSpec


def check(spec: JobSpec) -> Iterator[Diagnostic]:
    if (spec.loop.steps is None) == (spec.loop.epochs is None):
        both_set = spec.loop.steps is not None
        because = (
            "both are set, and each defines a different end"
            if both_set
            else "neither is set, so training would never end"
        )
        hint = "loop.steps=400"
        if both_set:
            hint = f"loop.steps=null, to run {spec.loop.epochs} epochs, or loop.epochs=null"
        yield Diagnostic("JC2004", "set exactly one of loop.steps and loop.epochs", because, hint, key="loop.epochs")
