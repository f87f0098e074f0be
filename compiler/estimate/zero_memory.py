"""Estimate how much memory ZeRO takes on a rank's device. Measured with DeepSpeed 0.19.8, on CPUs with 1 and 2 ranks.

For a user's own program, deepspeed.json enables 16-bit weights (`bf16.enabled`, `fp16.enabled`). Then gradients
are also 16-bit, and the optimizer casts them to 32 bits to update its 32-bit master weights. The trainer uses 32-bit
weights and autocast.
Source: runtime/engine.py (get_data_types), runtime/fp16/unfused_optimizer.py (stage 0), runtime/zero/stage_1_and_2.py,
runtime/zero/stage3.py, runtime/zero/partitioned_param_coordinator.py, runtime/zero/config.py for the defaults.
"""

from collections.abc import Mapping
from typing import Any

from .model_states import FP32, ModelStates
from .parameters import ModelSize

SUB_GROUP = 1_000_000_000  # parameters that stage 3 updates at once: sub_group_size
# Half of stage3_max_reuse_distance, because the backward pass soon reuses what the end of the forward pass gathered.
KEPT = 500_000_000


def zero_model_states(
    train: Mapping[str, Any], size: ModelSize, ranks: int, uses_trainer: bool, moments: int | None
) -> ModelStates:
    """Return the memory that ZeRO takes.

    train: train.json.
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
    return ModelStates(weights, gradients, optimizer, buffers, gathered, host)


def _gathered_bytes(of_weight: int, size: ModelSize) -> int | None:
    """Return the bytes that stage 3 gathers at once. Return None if the largest unit is unknown, unless all weights are
    kept.
    """
    if size.parameters <= KEPT:
        return of_weight * size.parameters
    return None if size.largest_unit is None else of_weight * max(size.largest_unit, KEPT)


def _bucket_bytes(parallel: Mapping[str, Any], of_number: int) -> int:
    """Return the bytes of the communication buckets, which do not depend on the model's size. There are two of them if
    one fills while the other is sent.
    """
    if not parallel["zero_stage"] or not parallel["contiguous_gradients"]:
        return 0
    count = 2 if parallel["overlap_comm"] and parallel["zero_stage"] < 3 else 1
    return count * of_number * int(parallel["reduce_bucket_size"])
