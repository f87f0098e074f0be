"""JC2077: the trainer's fp16 together with DeepSpeed.

Source: DeepSpeed, getting started (deepspeed.ai/getting-started): it scales the loss itself.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...diagnostics.diagnostic import Diagnostic
from ...spec.job_spec import JobSpec


def check(spec: JobSpec) -> Iterator[Diagnostic]:
    if spec.parallel.kind == "deepspeed" and spec.loop.precision == "fp16" and spec.command is None:
        because = "the trainer already scales the loss, and DeepSpeed would scale it again"
        hint = "loop.precision=bf16, or parallel=fsdp"
        yield Diagnostic(
            "JC2077", "loop.precision=fp16 is not supported with deepspeed", because, hint, key="loop.precision"
        )
