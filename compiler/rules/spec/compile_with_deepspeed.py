"""JC2073: torch.compile of the trainer's model, together with DeepSpeed."""

from __future__ import annotations

from collections.abc import Iterator

from ...diagnostics.diagnostic import Diagnostic
from ...spec.job_spec import JobSpec


def check(spec: JobSpec) -> Iterator[Diagnostic]:
    if spec.parallel.kind == "deepspeed" and spec.loop.compile != "none" and spec.command is None:
        because = "the trainer passes the model to DeepSpeed uncompiled; DeepSpeed's own compiler needs GPUs"
        hint = "loop.compile=none, or parallel=ddp"
        yield Diagnostic("JC2073", "loop.compile has no effect with deepspeed", because, hint, key="loop.compile")
