"""The part of a rank's memory that depends on the parallelism but not on the number of samples.

Source: torch 2.13, torch/optim/adam.py, sgd.py and so on: the tensors of `state` that are as large as a parameter.
"""

from collections.abc import Mapping
from typing import Any

from ...runtime.system.frozen_dataclass import dataclass

FP32 = 4


@dataclass(frozen=True)
class ModelStates:
    """Bytes on one rank.

    host: CPU memory, which offload uses.
    buffers: casts and communication buckets.
    optimizer: None for a user's optimizer of unknown size.
    gathered: the parameters that FSDP or ZeRO 3 gathers at once, None if the largest unit's size is unknown.
    """

    weights: int
    gradients: int
    optimizer: int | None
    buffers: int
    gathered: int | None
    host: int


ADAM = 2 * FP32  # exp_avg and exp_avg_sq
OF_ADAMS = frozenset(f"torch.optim.{name}" for name in ("Adam", "AdamW", "NAdam", "RAdam", "Adamax"))
LARGEST_OF = frozenset(("torch.optim.Adam", "torch.optim.AdamW"))  # these support amsgrad, which stores a third number
SGD = "torch.optim.SGD"


def optimizer_bytes_per_parameter(optim: Mapping[str, Any]) -> int | None:
    """Return how many bytes the optimizer state takes per parameter, None for an unknown optimizer. optim: from
    train.json
    """
    name = optim.get("_target_")
    if name is None:
        return ADAM
    if name == SGD:
        return FP32 if optim.get("momentum") else 0
    if name in OF_ADAMS:
        return ADAM + (FP32 if name in LARGEST_OF and optim.get("amsgrad") else 0)
    return None
