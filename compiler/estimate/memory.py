"""Estimate how much memory each part of the training state takes on a rank's device, the size of a checkpoint, and how
much CPU memory and shared memory a node needs.

Weights, gradients and optimizer state take 4 bytes per number. 16-bit copies are extra, except in the user's own
programs with DeepSpeed. Each kind of sharding divides some of these parts by the number of ranks that share them.
Source: ZeRO (arXiv 1910.02054, section 5); torch 2.13, torch/optim/adam.py, sgd.py and so on: the tensors of `state`
        that are as large as a parameter.
The CUDA context (0.5 to 1 GiB), the allocator's unused blocks and NCCL's buffers are not included.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ...runtime.system.frozen_dataclass import dataclass
from ..plan.launch_plan import LaunchPlan
from ..spec.job_spec import JobSpec
from .parameters import PIXELS, ModelSize, gathered_parameters

FP32, INT64 = 4, 8  # bytes
ADAM = 2 * FP32  # exp_avg and exp_avg_sq
OF_ADAMS = frozenset(f"torch.optim.{name}" for name in ("Adam", "AdamW", "NAdam", "RAdam", "Adamax"))
LARGEST_OF = frozenset(("torch.optim.Adam", "torch.optim.AdamW"))  # these support amsgrad, which stores a third number
STATES_ERROR = 0.01
MAY_BE_UNKNOWN = ("optimizer", "activations", "gathered")
ACTIVATION_ERROR = 0.10  # relative error, measured against what autograd keeps (tests/trainer)


@dataclass(frozen=True)
class Memory:
    """Bytes on one rank.

    host: CPU memory, which offload uses.
    buffers: casts and communication buckets.
    optimizer: None for a user's optimizer of unknown size.
    gathered: the parameters that FSDP or ZeRO 3 gathers at once, or None if the largest unit's size is unknown.
    activations: None if the model is not built in.
    checkpoint: None if `optimizer` is None.
    """

    weights: int
    gradients: int
    optimizer: int | None
    buffers: int
    gathered: int | None
    host: int
    activations: int | None = None
    checkpoint: int | None = None

    @property
    def unknown_parts(self) -> tuple[str, ...]:
        """Return the parts that the total does not include."""
        return tuple(part for part in MAY_BE_UNKNOWN if getattr(self, part) is None)

    @property
    def states(self) -> int:
        """Return the bytes of weights, gradients and optimizer state, which do not depend on the number of samples."""
        return self.weights + self.gradients + (self.optimizer or 0) + self.buffers + (self.gathered or 0)

    @property
    def total(self) -> int:
        """Return the sum of the known parts."""
        return self.states + (self.activations or 0)

    @property
    def error(self) -> int | None:
        """Return half the width of the error bar of `total`, or None if a part is unknown and may be the largest."""
        return None if self.unknown_parts else self._error_margin_bytes

    @property
    def least(self) -> int:
        """Return a lower bound on the total, computed from lower bounds on the known parts."""
        return self.total - self._error_margin_bytes

    @property
    def _error_margin_bytes(self) -> int:
        return round(STATES_ERROR * self.states + ACTIVATION_ERROR * (self.activations or 0))


def estimate_rank_memory(
    train: Mapping[str, Any], size: ModelSize, world_size: int, uses_trainer: bool = True
) -> Memory:
    """Return one rank's memory. uses_trainer: False for the user's own program, where the DeepSpeed config decides"""
    moments = optimizer_bytes_per_parameter(train["optim"]) if uses_trainer else ADAM
    if train["parallel"]["kind"] == "deepspeed":
        states = _zero_states(train, size, world_size, uses_trainer, moments)
    else:
        states = _torch_states(train, size, world_size, moments)
    activations = None
    if size.saved_per_sample is not None:
        activations = train["batch"]["micro"] * size.saved_per_sample
    checkpoint = None if moments is None else (FP32 + moments) * size.parameters
    return replace(states, activations=activations, checkpoint=checkpoint)


def optimizer_bytes_per_parameter(optim: Mapping[str, Any]) -> int | None:
    """Return the bytes of optimizer state per parameter, or None for an unknown optimizer. optim: from train.json"""
    name = optim.get("_target_")
    if name is None:
        return ADAM
    if name == "torch.optim.SGD":
        return FP32 if optim.get("momentum") else 0
    if name in OF_ADAMS:
        return ADAM + (FP32 if name in LARGEST_OF and optim.get("amsgrad") else 0)
    return None


def _torch_states(train: Mapping[str, Any], size: ModelSize, world_size: int, moments: int | None) -> Memory:
    """Return the model states with DDP or FSDP. moments: bytes of optimizer state per parameter"""
    n, parallel = size.parameters, train["parallel"]
    kind = parallel["kind"]
    low = FP32 if train["loop"]["precision"] == "fp32" else 2
    gathered_count: int | None = 0
    host = 0
    share = parallel["shards"] if kind == "hsdp" else world_size if kind == "fsdp" else 1
    weights, gradients = FP32 * n // share, FP32 * n // share
    optimizer = None if moments is None else moments * n // share
    if share > 1:
        gathered_count = gathered_parameters(parallel, size)
        if train["batch"]["accumulation"] > 1:  # gradients are not sharded until the last pass reduces them
            gradients = FP32 * n
    if kind != "ddp" and parallel["offload_params"]:
        host, weights, gradients, optimizer = weights + gradients + (optimizer or 0), 0, 0, 0
    buffers = low * n if low < FP32 and kind == "ddp" else 0  # autocast caches its copies during a pass
    gathered = None if gathered_count is None else low * gathered_count
    return Memory(weights, gradients, optimizer, buffers, gathered, host)


SUB_GROUP = 1_000_000_000  # parameters that stage 3 updates at once: sub_group_size
# Half of stage3_max_reuse_distance, because the backward pass soon reuses what the end of the forward pass gathered.
KEPT = 500_000_000


def _zero_states(
    train: Mapping[str, Any], size: ModelSize, ranks: int, uses_trainer: bool, moments: int | None
) -> Memory:
    """Return the states with ZeRO. Measured with DeepSpeed 0.19.8, on CPUs with 1 and 2 ranks.

    For a user's own program, deepspeed.json enables 16-bit weights (`bf16.enabled`, `fp16.enabled`). Then gradients
    are also 16-bit, and the optimizer casts them to 32 bits to update its 32-bit master weights. The trainer uses
    32-bit weights and autocast.
    Source: runtime/engine.py (get_data_types), runtime/fp16/unfused_optimizer.py (stage 0), runtime/zero/config.py for
            the defaults; in runtime/zero/: stage_1_and_2.py, stage3.py and partitioned_param_coordinator.py.
    moments: bytes of optimizer state per parameter.
    """
    n, parallel, is_low = size.parameters, train["parallel"], train["loop"]["precision"] != "fp32"
    stage = parallel["zero_stage"]
    of_optimizer, of_gradients, of_weights = (ranks if stage >= threshold else 1 for threshold in (1, 2, 3))
    of_weight = 2 if is_low and not uses_trainer else FP32
    copy = FP32 if stage or of_weight < FP32 else 0
    weights, gradients = of_weight * n // of_weights, of_weight * n // of_gradients
    optimizer = None if moments is None else (moments + copy) * n // of_optimizer
    host = 0
    gathered = _gathered_bytes(of_weight, size) if stage == 3 and ranks > 1 else 0
    bucket = _bucket_bytes(parallel, 2 if is_low and stage == 3 else of_weight)
    updated = min(n // ranks, SUB_GROUP) if stage == 3 else n // of_optimizer
    cast = FP32 * updated if of_weight < FP32 or stage == 3 else 0
    if parallel["offload_optimizer_device"] != "none":
        host, optimizer = (optimizer or 0) + cast + gradients, 0
        gradients = cast = 0  # gradients follow the optimizer (ZeRO-Offload)
    if stage == 3:  # the bucket is permanent; weights are partitioned again before the update
        buffers = bucket + max(cast - (gathered or 0), 0)
    else:  # the update needs no bucket, only the rank's share of the full gradients
        at_update = gradients * of_gradients // of_optimizer + cast
        buffers = max(bucket, at_update - gradients)
    if is_low and uses_trainer and stage < 3:  # stage 3 has a linear layer that casts again in the backward pass
        buffers += 2 * n  # autocast caches its copies during a pass
    if parallel["offload_param_device"] != "none":
        host, weights = host + weights, 0
    return Memory(weights, gradients, optimizer, buffers, gathered, host)


def _gathered_bytes(of_weight: int, size: ModelSize) -> int | None:
    """Return the bytes that stage 3 gathers at once, or None if not all weights are kept and the unit is unknown."""
    if size.parameters <= KEPT:
        return of_weight * size.parameters
    return None if size.largest_unit is None else of_weight * max(size.largest_unit, KEPT)


def _bucket_bytes(parallel: Mapping[str, Any], of_number: int) -> int:
    """Return the bytes of the communication buckets: two if one fills while the other is sent."""
    if not parallel["zero_stage"] or not parallel["contiguous_gradients"]:
        return 0
    count = 2 if parallel["overlap_comm"] and parallel["zero_stage"] < 3 else 1
    return count * of_number * int(parallel["reduce_bucket_size"])


def host_memory(train: Mapping[str, Any], needs: Memory, procs: int, uses_trainer: bool) -> int | None:
    """Return the bytes of CPU memory that a node's ranks need to resume.

    Return None for unsharded models and for the user's own program.

    A checkpoint is not sharded: rank 0 gathers it to save, and each rank reads all of it (trainer/parallel/fsdp.py).
    """
    if not uses_trainer or train["parallel"]["kind"] not in ("fsdp", "hsdp") or needs.checkpoint is None:
        return None
    file_share = 2 / 3  # the larger of the two files is in memory while it is read; it contains the moments
    return procs * round(needs.checkpoint * (1 + file_share) + needs.host)


def max_shared_memory(spec: JobSpec, plan: LaunchPlan) -> int | None:
    """Return the maximum number of bytes of /dev/shm that loader workers use per node, or None if it is unknown.

    Each worker holds `prefetch` training batches and as many validation batches. For the user's own data,
    estimate.sample_size must give the size of a sample.
    Source: torch 2.13, torch/utils/data/_utils/worker.py: a worker puts each tensor of a batch into a file of /dev/shm.
    """
    if not plan.uses_trainer:
        return None
    train = plan.train
    loader, micro = train["loader"], int(train["batch"]["micro"])
    sample = spec.estimate.sample_size or _builtin_sample_bytes(train)
    if not loader["workers"] or sample is None:
        return None if loader["workers"] else 0
    return 2 * plan.topology.procs * int(loader["workers"]) * int(loader["prefetch"]) * micro * sample


def _builtin_sample_bytes(train: Any) -> int | None:
    kind = train["data"].get("kind")  # a `_target_` has no kind
    if kind == "digits":
        return PIXELS * FP32 + INT64
    context = train["model"].get("context")
    return INT64 * (int(context) + 1) if kind and isinstance(context, int) else None
