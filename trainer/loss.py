"""The loss of one batch, as a sum: only whoever knows all ranks' counts may divide."""

from contextlib import AbstractContextManager, nullcontext
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .data.source import IGNORE

Precision = Literal["fp32", "bf16", "fp16"]
DTYPES = {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}  # of matrix products; None = of the weights


class WithLoss(nn.Module):
    """A model and the loss of what it says, as one module: then torch.compile fuses the two.

    (inputs, targets) -> loss_sum of them; (inputs) -> logits
    """

    def __init__(self, model: nn.Module, precision: Precision) -> None:
        super().__init__()
        self.model, self.precision = model, precision

    def forward(self, inputs: Tensor, targets: Tensor | None = None) -> Tensor:
        if targets is not None:
            return loss_sum(self.model, inputs, targets, self.precision)
        with autocast(inputs.device, self.precision):
            logits: Tensor = self.model(inputs)
        return logits


def loss_sum(model: nn.Module, inputs: Tensor, targets: Tensor, precision: Precision) -> Tensor:
    """Cross-entropy in nats, added over the targets that are not IGNORE; a float32 scalar."""
    with autocast(inputs.device, precision):
        logits = model(inputs)
    return F.cross_entropy(logits.flatten(0, -2).float(), targets.flatten(), ignore_index=IGNORE, reduction="sum")


def autocast(device: torch.device, precision: Precision) -> AbstractContextManager[object]:
    """bf16, fp16: matrix products in 16 bits over float32 weights. fp32: nothing."""
    dtype = DTYPES[precision]
    return nullcontext() if dtype is None else torch.autocast(device.type, dtype)
