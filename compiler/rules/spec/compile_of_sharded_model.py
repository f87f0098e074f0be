"""JC2076: torch.compile of a whole sharded model."""

from __future__ import annotations

from collections.abc import Iterator

from ...diagnostics.diagnostic import Diagnostic
from ...spec.job_spec import JobSpec


def check(spec: JobSpec) -> Iterator[Diagnostic]:
    if spec.parallel.kind in ("fsdp", "hsdp") and spec.loop.compile == "model" and spec.command is None:
        because = (
            f"{spec.parallel.kind} gathers weights before each block, which causes a graph break in a compiled model"
        )
        title, hint = f"loop.compile=model with parallel={spec.parallel.kind}", "loop.compile=blocks"
        yield Diagnostic("JC2076", title, because, hint, key="loop.compile")
