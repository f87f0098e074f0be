"""JC2078: activation checkpointing of every k-th block through accelerate, which supports all blocks or none.

Source: accelerate 1.14, utils/dataclasses.py: `activation_checkpointing` is yes or no.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...diagnostics.diagnostic import Diagnostic
from ...spec.job_spec import JobSpec


def check(spec: JobSpec) -> Iterator[Diagnostic]:
    k = spec.loop.activation_checkpointing
    if k > 1 and spec.command is not None and spec.parallel.kind in ("fsdp", "hsdp") and spec.launcher == "accelerate":
        title = f"loop.activation_checkpointing={k} for a program that uses accelerate"
        because = "accelerate's fsdp_activation_checkpointing applies to all blocks or to none"
        hint = "loop.activation_checkpointing=1, or 0"
        yield Diagnostic("JC2078", title, because, hint, key="loop.activation_checkpointing")
