"""Rules on how the ranks share the work: JC2071 to JC2078. Each yields Diagnostics; check.py runs them.

Source DeepSpeed 0.19.8: runtime/zero/config.py, and its JSON reference on offload (deepspeed.ai/docs/config-json)
"""

from __future__ import annotations

from collections.abc import Iterator

from ..trainer.config import DeepspeedConfig, FsdpConfig
from .diagnostics import Diagnostic
from .lower import procs, shards, world_size
from .spec import HsdpSpec, JobSpec


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
    if spec.parallel.kind == "deepspeed" and spec.loop.compile != "none" and spec.command is None:
        because = "the trainer hands the model to DeepSpeed as it is, whose own compiler needs GPUs"
        hint = "loop.compile=none, or parallel=ddp"
        yield Diagnostic("JC2073", "loop.compile has no effect with deepspeed", because, hint, key="loop.compile")


def shards_fit_the_nodes(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2074: a copy of the model ends where a node ends, and the last copy is whole."""
    if not isinstance(spec.parallel, HsdpSpec):
        return
    wanted, of_a_node, world = shards(spec), procs(spec), world_size(spec)
    if world % wanted == 0 and (of_a_node % wanted == 0 or wanted % of_a_node == 0):
        return
    sizes = [size for size in range(1, world + 1) if world % size == 0 and not (of_a_node % size and size % of_a_node)]
    title = f"parallel.shards={wanted} with {spec.nodes} nodes of {of_a_node} ranks"
    because = "the mesh is (ranks / shards) x shards, and a copy of the model has to end where a node ends"
    hint = f"parallel.shards={of_a_node}, the ranks of a node; or {', '.join(map(str, sizes))}"
    yield Diagnostic("JC2074", title, because, hint, key="parallel.shards")


def trainer_saves_whole_checkpoints(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2075"""
    sharded = isinstance(spec.parallel, (FsdpConfig, HsdpSpec)) and spec.parallel.state_dict_type != "FULL_STATE_DICT"
    if sharded and spec.command is None:
        because = "checkpoints of the trainer are whole, so that a run may go on with other ranks or another way"
        hint = "parallel.state_dict_type=FULL_STATE_DICT"
        title = "the trainer writes no sharded checkpoints"
        yield Diagnostic("JC2075", title, because, hint, key="parallel.state_dict_type")


def fsdp_compiles_blocks(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2076"""
    if spec.parallel.kind in ("fsdp", "hsdp") and spec.loop.compile == "model" and spec.command is None:
        because = f"{spec.parallel.kind} gathers weights before each block, where a compiled model would break apart"
        title, hint = f"loop.compile=model with parallel={spec.parallel.kind}", "loop.compile=blocks"
        yield Diagnostic("JC2076", title, because, hint, key="loop.compile")


def deepspeed_has_no_fp16(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2077"""
    if spec.parallel.kind == "deepspeed" and spec.loop.precision == "fp16" and spec.command is None:
        because = "the trainer scales the loss itself, which DeepSpeed would do a second time"
        hint = "loop.precision=bf16, or parallel=fsdp"
        yield Diagnostic("JC2077", "no fp16 with deepspeed", because, hint, key="loop.precision")


def accelerate_recomputes_all_or_none(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2078"""
    k = spec.loop.activation_checkpointing
    if k > 1 and spec.command is not None and spec.parallel.kind in ("fsdp", "hsdp") and spec.launcher == "accelerate":
        title = f"loop.activation_checkpointing={k} for a program that uses accelerate"
        because = "its fsdp_activation_checkpointing is on or off, for all blocks"
        hint = "loop.activation_checkpointing=1, or 0"
        yield Diagnostic("JC2078", title, because, hint, key="loop.activation_checkpointing")


PARALLEL_RULES = (
    offload_needs_a_stage,
    nvme_has_a_folder,
    deepspeed_does_not_compile,
    shards_fit_the_nodes,
    trainer_saves_whole_checkpoints,
    fsdp_compiles_blocks,
    deepspeed_has_no_fp16,
    accelerate_recomputes_all_or_none,
)
