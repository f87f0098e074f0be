"""JC2071: offload of something that this ZeRO stage does not partition, which DeepSpeed ignores.

Source: DeepSpeed 0.19.8: runtime/zero/config.py, and its JSON reference on offload (deepspeed.ai/docs/config-json).
"""

from __future__ import annotations

from collections.abc import Iterator

from ....trainer.config.schema import DeepspeedConfig
from ...diagnostics.diagnostic import Diagnostic
from ...spec.job_spec import JobSpec


def check(spec: JobSpec) -> Iterator[Diagnostic]:
    zero = spec.parallel
    if not isinstance(zero, DeepspeedConfig):
        return
    least = {"none": 0, "cpu": 1, "nvme": 3}[zero.offload_optimizer_device]
    if zero.zero_stage < least:
        yield _too_low("offload_optimizer_device", zero.offload_optimizer_device, zero.zero_stage, least)
    if zero.offload_param_device != "none" and zero.zero_stage < 3:
        yield _too_low("offload_param_device", zero.offload_param_device, zero.zero_stage, 3)


def _too_low(key: str, device: str, stage: int, least: int) -> Diagnostic:
    title = f"parallel.{key}={device} with parallel.zero_stage={stage}"
    because = f"DeepSpeed silently ignores {device} offload below stage {least}"
    hint = f"parallel.zero_stage={least}{' or more' if least < 3 else ''}, or parallel.{key}=none"
    return Diagnostic("JC2071", title, because, hint, key=f"parallel.{key}")
