"""JC2073: torch.compile of the trainer's model, together with DeepSpeed."""

from __future__ import annotations

from collections.abc import Iterator

from ...diagnostics.diagnostic import Diagnostic
from ...spec.job_spec import JobSpec


def check(spec: JobSpec) -> Iterator[Diagnostic]:
    if spec.parallel.kind == "deepspeed" and spec.loop.compile != "none" and spec.command is None:
        because = "the trainer hands the model to DeepSpeed as it is, whose own compiler needs GPUs"
        hint = "loop.compile=none, or parallel=ddp"
        yield Diagnostic("JC2073", "loop.compile has no effect with deepspeed", because, hint, key="loop.compile")
