"""Estimate the optimizer state in bytes per parameter, for AdamW and the simple optimizers of torch.optim.

Source: torch 2.13, torch/optim/adam.py, sgd.py and so on: the tensors of `state` that are as large as a parameter.
"""

from collections.abc import Mapping
from typing import Any

from .model_states import FP32

ADAM = 2 * FP32  # exp_avg and exp_avg_sq
OF_ADAMS = frozenset(f"torch.optim.{name}" for name in ("Adam", "AdamW", "NAdam", "RAdam", "Adamax"))
LARGEST_OF = frozenset(("torch.optim.Adam", "torch.optim.AdamW"))  # these support amsgrad, a third number
SGD = "torch.optim.SGD"


def optimizer_bytes_per_parameter(optim: Mapping[str, Any]) -> int | None:
    """Return the bytes per parameter; None for an unknown optimizer. optim: from train.json"""
    name = optim.get("_target_")
    if name is None:
        return ADAM
    if name == SGD:
        return FP32 if optim.get("momentum") else 0
    if name in OF_ADAMS:
        return ADAM + (FP32 if name in LARGEST_OF and optim.get("amsgrad") else 0)
    return None
