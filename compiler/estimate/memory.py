"""Memory of one rank's device, by part, and the size of a checkpoint.

Weights, gradients and AdamW's two moments are numbers of 4 bytes (16 bits are copies of them); each way of sharing
divides some of them by the ranks that share. Sources: ZeRO (arXiv 1910.02054, section 5); DeepSpeed 0.19.8,
runtime/zero/stage_1_and_2.py and stage3.py, whose optimizer holds a copy of the weights it updates.
Not counted: the CUDA context (0.5 to 1 GiB), the allocator's unused blocks, NCCL's buffers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .parameters import ModelSize

FP32 = 4
MOMENTS = 2 * FP32  # of AdamW, for one parameter
STATES_ERROR = 0.01
ACTIVATION_ERROR = 0.10  # of what autograd was seen to keep (tests/trainer)


@dataclass(frozen=True)
class Memory:
    """Bytes. host: of one rank in CPU memory, by offload; buffers: casts, and what is in messages.

    gathered: what FSDP and ZeRO 3 have whole at a time, None when nobody says how large the largest unit is
    activations: None when the model is not a built-in one
    """

    weights: int
    gradients: int
    optimizer: int
    buffers: int
    gathered: int | None
    activations: int | None
    host: int
    checkpoint: int

    @property
    def states(self) -> int:
        """What does not depend on the samples."""
        return self.weights + self.gradients + self.optimizer + self.buffers + (self.gathered or 0)

    @property
    def total(self) -> int:
        """Of what is known."""
        return self.states + (self.activations or 0)

    @property
    def error(self) -> int | None:
        """Half the width of the bound on `total`; None without activations, which may be most of it."""
        if self.activations is None:
            return None
        return round(STATES_ERROR * self.states + ACTIVATION_ERROR * self.activations)

    @property
    def least(self) -> int:
        """What it takes at least, by the bounds on what is known."""
        return self.total - (round(STATES_ERROR * self.states) if self.error is None else self.error)


def memory(train: Mapping[str, Any], size: ModelSize, world_size: int) -> Memory:
    """train: train.json"""
    n, parallel = size.parameters, train["parallel"]
    kind = parallel["kind"]
    low = FP32 if train["loop"]["precision"] == "fp32" else 2
    weights = gradients = optimizer = buffers = host = gathers = 0
    if kind == "deepspeed":
        stage = parallel["zero_stage"]
        shares = [world_size if stage >= at else 1 for at in (1, 2, 3)]
        weights, gradients = FP32 * n // shares[2], FP32 * n // shares[1]
        copy = FP32 if stage else 0
        optimizer = (MOMENTS + copy) * n // shares[0]
        buffers = FP32 * min(parallel["reduce_bucket_size"], n) if stage and world_size > 1 else 0
        gathers = FP32 if stage == 3 else 0
        if parallel["offload_optimizer_device"] != "none":
            host, optimizer = optimizer, 0
            host, gradients = host + gradients, 0  # gradients follow the optimizer (ZeRO-Offload)
        if parallel["offload_param_device"] != "none":
            host, weights = host + weights, 0
    else:
        share = parallel["shards"] if kind == "hsdp" else world_size if kind == "fsdp" else 1
        weights, gradients, optimizer = FP32 * n // share, FP32 * n // share, MOMENTS * n // share
        if share > 1:  # two units are whole at a time: one is used, the next is on its way
            gathers = 2 * low
            if train["batch"]["accumulation"] > 1:  # whole until the last pass, which exchanges them
                gradients = FP32 * n
        if kind != "ddp" and parallel["offload_params"]:
            host, weights, gradients, optimizer = weights + gradients + optimizer, 0, 0, 0
    if low < FP32 and kind not in ("fsdp", "hsdp"):
        buffers += low * n  # autocast keeps its copies of a pass
    unit = size.largest_unit if gathers else 0
    gathered = None if unit is None else gathers * unit
    activations = None
    if size.saved_per_sample is not None:
        activations = train["batch"]["micro"] * size.saved_per_sample
    checkpoint = (FP32 + MOMENTS) * n
    return Memory(weights, gradients, optimizer, buffers, gathered, activations, host, checkpoint)
