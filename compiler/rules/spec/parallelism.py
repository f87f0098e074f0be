"""DeepSpeed's ZeRO, FSDP and hybrid sharding: JC2071 to JC2078."""

from collections.abc import Iterator

from ....trainer.config.schema import DeepspeedConfig, FsdpConfig
from ...diagnostics.diagnostic import Diagnostic
from ...plan.derive import divisors, procs_per_node, shard_group_size, world_size
from ...spec.job_spec import HsdpSpec, JobSpec


def check_offload_without_stage(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2071: offload of a part that this ZeRO stage does not partition. DeepSpeed ignores it.

    Source: DeepSpeed 0.19.8: runtime/zero/config.py, and its JSON reference on offload (deepspeed.ai/docs/config-json).
    """
    zero = spec.parallel
    if not isinstance(zero, DeepspeedConfig):
        return
    least = {"none": 0, "cpu": 1, "nvme": 3}[zero.offload_optimizer_device]
    if zero.zero_stage < least:
        yield _unsupported_stage_diagnostic(
            "offload_optimizer_device", zero.offload_optimizer_device, zero.zero_stage, least
        )
    if zero.offload_param_device != "none" and zero.zero_stage < 3:
        yield _unsupported_stage_diagnostic("offload_param_device", zero.offload_param_device, zero.zero_stage, 3)


def _unsupported_stage_diagnostic(key: str, device: str, stage: int, least: int) -> Diagnostic:
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
        title = "loop.precision=fp16 is not supported with deepspeed"
        yield Diagnostic("JC2077", title, because, hint, key="loop.precision")


def check_uneven_shards(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2074: shards that do not fit the nodes: a copy of the model must fill nodes, or several copies one node."""
    if not isinstance(spec.parallel, HsdpSpec):
        return
    shard_count, of_a_node, world = shard_group_size(spec), procs_per_node(spec), world_size(spec)
    if world % shard_count == 0 and (of_a_node % shard_count == 0 or shard_count % of_a_node == 0):
        return
    sizes = [size for size in divisors(world) if not (of_a_node % size and size % of_a_node)]
    title = f"parallel.shards={shard_count} with {spec.nodes} nodes of {of_a_node} ranks"
    because = "the mesh is (ranks / shards) x shards, and each copy of the model must fill whole nodes"
    hint = f"parallel.shards={of_a_node}, the number of ranks per node; or {', '.join(map(str, sizes))}"
    yield Diagnostic("JC2074", title, because, hint, key="parallel.shards")


def check_sharded_checkpoints_of_trainer(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2075: sharded checkpoints, which the trainer does not write."""
    sharded = isinstance(spec.parallel, (FsdpConfig, HsdpSpec)) and spec.parallel.state_dict_type != "FULL_STATE_DICT"
    if sharded and spec.command is None:
        because = "the trainer saves full checkpoints, so that a run can resume with another world size or parallelism"
        hint = "parallel.state_dict_type=FULL_STATE_DICT"
        title = "jobc's own trainer does not write sharded checkpoints"
        yield Diagnostic("JC2075", title, because, hint, key="parallel.state_dict_type")


def check_compile_of_sharded_model(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2076: torch.compile of a whole sharded model."""
    if spec.parallel.kind in ("fsdp", "hsdp") and spec.loop.compile == "model" and spec.command is None:
        because = f"{spec.parallel.kind} gathers weights before each block, which breaks the graph of a compiled model"
        title, hint = f"loop.compile=model with parallel={spec.parallel.kind}", "loop.compile=blocks"
        yield Diagnostic("JC2076", title, because, hint, key="loop.compile")


def check_partial_checkpointing(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2078: activation checkpointing of every k-th block through accelerate, which only supports all blocks or none.

    Source: accelerate 1.14, utils/dataclasses.py: `activation_checkpointing` is yes or no.
    """
    k = spec.loop.activation_checkpointing
    if k > 1 and spec.command is not None and spec.parallel.kind in ("fsdp", "hsdp") and spec.launcher == "accelerate":
        title = f"loop.activation_checkpointing={k} for a program that uses accelerate"
        because = "accelerate's fsdp_activation_checkpointing applies to all blocks or to none"
        hint = "loop.activation_checkpointing=1, or 0"
        yield Diagnostic("JC2078", title, because, hint, key="loop.activation_checkpointing")
