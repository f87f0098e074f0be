"""The loss of one batch, as a sum: only whoever knows all ranks' counts may divide."""

from contextlib import AbstractContextManager, nullcontext
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .data.source import IGNORE

Precision = Literal["fp32", "bf16"]


def loss_sum(model: nn.Module, inputs: Tensor, targets: Tensor, precision: Precision) -> Tensor:
    """Cross-entropy in nats, added over the targets that are not IGNORE; a float32 scalar."""
    with autocast(inputs.device, precision):
        logits = model(inputs)
    return F.cross_entropy(logits.flatten(0, -2).float(), targets.flatten(), ignore_index=IGNORE, reduction="sum")


def autocast(device: torch.device, precision: Precision) -> AbstractContextManager[object]:
    """bf16: matrix products in bfloat16 over float32 weights. fp32: nothing."""
    return torch.autocast(device.type, torch.bfloat16) if precision == "bf16" else nullcontext()
