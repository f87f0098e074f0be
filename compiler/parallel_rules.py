"""Rules on how the ranks share the work: JC2070 to JC2073. Each yields Diagnostics; check.py runs them.

Source DeepSpeed 0.19.8: runtime/zero/config.py, and its JSON reference on offload (deepspeed.ai/docs/config-json)
"""

from __future__ import annotations

from collections.abc import Iterator

from ..trainer.config import DeepspeedConfig
from .diagnostics import Diagnostic
from .spec import JobSpec


def trainer_has_no_fsdp(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2070"""
    if spec.parallel.kind == "fsdp" and spec.command is None:
        because = "the trainer that comes with jobc has ddp and deepspeed; fsdp is for programs that use accelerate"
        hint = "parallel=deepspeed parallel.zero_stage=3, which shares the same; or your own program after --"
        yield Diagnostic("JC2070", "the trainer has no fsdp", because, hint, key="parallel.kind")


def offload_needs_a_stage(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2071: DeepSpeed offloads what it partitions, and ignores a wish to offload the rest."""
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
    because = f"DeepSpeed has nothing to move to {device} below stage {least}, and would not say so"
    hint = f"parallel.zero_stage={least}{' or more' if least < 3 else ''}, or parallel.{key}=none"
    return Diagnostic("JC2071", title, because, hint, key=f"parallel.{key}")


def nvme_has_a_folder(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2072"""
    zero = spec.parallel
    if not isinstance(zero, DeepspeedConfig):
        return
    used = "nvme" in (zero.offload_optimizer_device, zero.offload_param_device)
    if used and zero.nvme_path is None:
        because = "DeepSpeed keeps files on a local disk of each node, and has no default folder"
        hint = "parallel.nvme_path=/local_nvme"
        yield Diagnostic("JC2072", "offload to nvme has no folder", because, hint, key="parallel.nvme_path")
    if zero.nvme_path is not None and not used:
        because = "nothing is offloaded to nvme"
        hint = "parallel.nvme_path=null; or parallel.zero_stage=3 parallel.offload_param_device=nvme"
        yield Diagnostic("JC2072", "parallel.nvme_path has no effect", because, hint, key="parallel.nvme_path")


def deepspeed_does_not_compile(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2073"""
    if spec.parallel.kind == "deepspeed" and spec.loop.compile and spec.command is None:
        because = "the trainer hands the model to DeepSpeed as it is, whose own compiler needs GPUs"
        hint = "loop.compile=false, or parallel=ddp"
        yield Diagnostic("JC2073", "loop.compile has no effect with deepspeed", because, hint, key="loop.compile")


PARALLEL_RULES = (trainer_has_no_fsdp, offload_needs_a_stage, nvme_has_a_folder, deepspeed_does_not_compile)
