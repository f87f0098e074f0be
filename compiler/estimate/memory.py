"""Estimate how much memory each part of the training state takes on a rank's device, and the size of a checkpoint.

Weights, gradients and optimizer state take 4 bytes per number. 16-bit copies are extra, except in the user's own
programs with DeepSpeed (zero_memory.py). Each kind of sharding divides some of these parts by the number of ranks that
share them.
Source: ZeRO (arXiv 1910.02054, section 5).
The CUDA context (0.5 to 1 GiB), the allocator's unused blocks and NCCL's buffers are not included.
"""

from collections.abc import Mapping
from typing import Any

from ...runtime.system.frozen_dataclass import dataclass
from .gathered_parameters import gathered_parameters
from .model_states import ADAM, FP32, ModelStates, optimizer_bytes_per_parameter
from .parameters import ModelSize
from .zero_memory import zero_model_states

STATES_ERROR = 0.01
MAY_BE_UNKNOWN = ("optimizer", "activations", "gathered")
ACTIVATION_ERROR = 0.10  # relative error, measured against what autograd keeps (tests/trainer)


@dataclass(frozen=True)
class Memory(ModelStates):
    """Bytes by part.

    activations: None if the model is not built in.
    checkpoint: None if `optimizer` is None.
    """

    activations: int | None
    checkpoint: int | None

    @property
    def unknown(self) -> tuple[str, ...]:
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
        """Return half the width of the error bar of `total`. Return None if a part is unknown, because it may be the
        largest.
        """
        return None if self.unknown else self._error_bytes

    @property
    def least(self) -> int:
        """Return a lower bound of the total, from lower bounds of the known parts."""
        return self.total - self._error_bytes

    @property
    def _error_bytes(self) -> int:
        return round(STATES_ERROR * self.states + ACTIVATION_ERROR * (self.activations or 0))


def estimate_rank_memory(
    train: Mapping[str, Any], size: ModelSize, world_size: int, uses_trainer: bool = True
) -> Memory:
    """Return one rank's memory. uses_trainer: False for the user's own program, where the DeepSpeed config decides"""
    is_zero = train["parallel"]["kind"] == "deepspeed"
    per_parameter = optimizer_bytes_per_parameter(train["optim"]) if uses_trainer else ADAM
    states = (
        zero_model_states(train, size, world_size, uses_trainer, per_parameter)
        if is_zero
        else _torch_model_states(train, size, world_size, per_parameter)
    )
    activations = None
    if size.saved_per_sample is not None:
        activations = train["batch"]["micro"] * size.saved_per_sample
    checkpoint = None if per_parameter is None else (FP32 + per_parameter) * size.parameters
    return Memory(**vars(states), activations=activations, checkpoint=checkpoint)


def _torch_model_states(train: Mapping[str, Any], size: ModelSize, world_size: int, moments: int | None) -> ModelStates:
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
    return ModelStates(
        weights, gradients, optimizer, buffers, None if gathered_count is None else low * gathered_count, host
    )
