"""DeepSpeed's ZeRO stages, offload, compilation and precision: JC2071 to JC2073, JC2077."""

from collections.abc import Iterator

from ....trainer.config.schema import DeepspeedConfig
from ...diagnostics.diagnostic import Diagnostic
from ...spec.job_spec import JobSpec


def check_offload_without_stage(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2071: offload of a part that this ZeRO stage does not partition. DeepSpeed ignores it.

    Source: DeepSpeed 0.19.8: runtime/zero/config.py, and its JSON reference on offload (deepspeed.ai/docs/config-json).
    """
    zero = spec.parallel
    if not isinstance(zero, DeepspeedConfig):
        return
    least = {"none": 0, "cpu": 1, "nvme": 3}[zero.offload_optimizer_device]
    if zero.zero_stage < least:
        yield _unsupported_stage("offload_optimizer_device", zero.offload_optimizer_device, zero.zero_stage, least)
    if zero.offload_param_device != "none" and zero.zero_stage < 3:
        yield _unsupported_stage("offload_param_device", zero.offload_param_device, zero.zero_stage, 3)


def _unsupported_stage(key: str, device: str, stage: int, least: int) -> Diagnostic:
    title = f"parallel.{key}={device} with parallel.zero_stage={stage}"
    because = f"DeepSpeed silently ignores {device} offload below stage {least}"
    hint = f"parallel.zero_stage={least}{' or more' if least < 3 else ''}, or parallel.{key}=none"
    return Diagnostic("JC2071", title, because, hint, key=f"parallel.{key}")


def check_nvme_without_folder(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2072: NVMe offload without parallel.nvme_path, or parallel.nvme_path without NVMe offload.

    Source: DeepSpeed 0.19.8: runtime/zero/config.py, and its JSON reference on offload (deepspeed.ai/docs/config-json).
    """
    zero = spec.parallel
    if not isinstance(zero, DeepspeedConfig):
        return
    used = "nvme" in (zero.offload_optimizer_device, zero.offload_param_device)
    if used and zero.nvme_path is None:
        because = "DeepSpeed needs a folder on each node's local disk, and there is no default"
        hint = "parallel.nvme_path=/local_nvme"
        yield Diagnostic("JC2072", "NVMe offload needs parallel.nvme_path", because, hint, key="parallel.nvme_path")
    if zero.nvme_path is not None and not used:
        because = "no NVMe offload is configured"
        hint = "parallel.nvme_path=null; or parallel.zero_stage=3 parallel.offload_param_device=nvme"
        yield Diagnostic("JC2072", "parallel.nvme_path has no effect", because, hint, key="parallel.nvme_path")


def check_compile_with_deepspeed(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2073: torch.compile of the trainer's model, together with DeepSpeed."""
    if spec.parallel.kind == "deepspeed" and spec.loop.compile != "none" and spec.command is None:
        because = "the trainer passes the model to DeepSpeed uncompiled; DeepSpeed's own compiler needs GPUs"
        hint = "loop.compile=none, or parallel=ddp"
        yield Diagnostic("JC2073", "loop.compile has no effect with deepspeed", because, hint, key="loop.compile")


def check_fp16_with_deepspeed(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2077: the trainer's fp16 together with DeepSpeed.

    Source: DeepSpeed, getting started (deepspeed.ai/getting-started): it scales the loss itself.
    """
    if spec.parallel.kind == "deepspeed" and spec.loop.precision == "fp16" and spec.command is None:
        because = "the trainer already scales the loss, and DeepSpeed would scale it again"
        hint = "loop.precision=bf16, or parallel=fsdp"
        yield Diagnostic(
            "JC2077", "loop.precision=fp16 is not supported with deepspeed", because, hint, key="loop.precision"
        )
