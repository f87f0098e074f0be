"""Memory of one rank's device, by part, and the size of a checkpoint.

Weights, gradients and the optimizer's numbers are of 4 bytes (16 bits are copies of them, but for programs of one's
own with DeepSpeed: zero.py); each way of sharing divides some of them by the ranks that share. Source: ZeRO (arXiv
1910.02054, section 5).
Not counted: the CUDA context (0.5 to 1 GiB), the allocator's unused blocks, NCCL's buffers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .gathered import gathered
from .moments import ADAM, moments
from .parameters import ModelSize
from .states import FP32, States
from .zero import zero

STATES_ERROR = 0.01
MAY_BE_UNKNOWN = ("optimizer", "activations", "gathered")
ACTIVATION_ERROR = 0.10  # of what autograd was seen to keep (tests/trainer)


@dataclass(frozen=True)
class Memory(States):
    """Bytes. activations: None when the model is not a built-in one; checkpoint: None where optimizer is."""

    activations: int | None
    checkpoint: int | None

    @property
    def unknown(self) -> tuple[str, ...]:
        """The parts that the sum is without."""
        return tuple(part for part in MAY_BE_UNKNOWN if getattr(self, part) is None)

    @property
    def states(self) -> int:
        """Return the memory of weights, gradients and optimizer state, which does not depend on the samples."""
        return self.weights + self.gradients + (self.optimizer or 0) + self.buffers + (self.gathered or 0)

    @property
    def total(self) -> int:
        """Return the sum of the known parts."""
        return self.states + (self.activations or 0)

    @property
    def error(self) -> int | None:
        """Half the width of the bound on `total`; None where a part of it is not known, which may be most of it."""
        return None if self.unknown else self._wrong

    @property
    def least(self) -> int:
        """Return a lower bound of the total, from lower bounds of the known parts."""
        return self.total - self._wrong

    @property
    def _wrong(self) -> int:
        """Return the error bar of the known parts in bytes."""
        return round(STATES_ERROR * self.states + ACTIVATION_ERROR * (self.activations or 0))


def memory(train: Mapping[str, Any], size: ModelSize, world_size: int, uses_trainer: bool = True) -> Memory:
    """train: train.json; uses_trainer: False for a program of the user's, which DeepSpeed's own config decides for"""
    is_zero = train["parallel"]["kind"] == "deepspeed"
    per_parameter = moments(train["optim"]) if uses_trainer else ADAM
    states = (
        zero(train, size, world_size, uses_trainer, per_parameter)
        if is_zero
        else _of_torch(train, size, world_size, per_parameter)
    )
    activations = None
    if size.saved_per_sample is not None:
        activations = train["batch"]["micro"] * size.saved_per_sample
    checkpoint = None if per_parameter is None else (FP32 + per_parameter) * size.parameters
    return Memory(**vars(states), activations=activations, checkpoint=checkpoint)


def _of_torch(train: Mapping[str, Any], size: ModelSize, world_size: int, moments: int | None) -> States:
    """DDP and FSDP. moments: bytes of the optimizer for one parameter"""
    n, parallel = size.parameters, train["parallel"]
    kind = parallel["kind"]
    low = FP32 if train["loop"]["precision"] == "fp32" else 2
    gathered_count: int | None = 0
    host = 0
    share = parallel["shards"] if kind == "hsdp" else world_size if kind == "fsdp" else 1
    weights, gradients = FP32 * n // share, FP32 * n // share
    optimizer = None if moments is None else moments * n // share
    if share > 1:
        gathered_count = gathered(parallel, size)
        if train["batch"]["accumulation"] > 1:  # whole until the last pass, which exchanges them
            gradients = FP32 * n
    if kind != "ddp" and parallel["offload_params"]:
        host, weights, gradients, optimizer = weights + gradients + (optimizer or 0), 0, 0, 0
    buffers = low * n if low < FP32 and kind == "ddp" else 0  # autocast keeps its copies of a pass
    return States(
        weights, gradients, optimizer, buffers, None if gathered_count is None else low * gathered_count, host
    )
