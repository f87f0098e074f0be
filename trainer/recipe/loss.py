"""Model and loss as one module, so that torch.compile fuses them."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal

import torch
from torch import nn

from .recipe import Recipe

Precision = Literal["fp32", "bf16", "fp16"]
DTYPES = {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}  # dtype of matmuls; None = dtype of the weights


class ModelWithLoss(nn.Module):
    """(batch) -> (loss_sum, count); (batch, measure=True) -> (loss_sum, score_sum, count). See recipe.py."""

    def __init__(self, model: nn.Module, recipe: Recipe, precision: Precision) -> None:
        super().__init__()
        self.model, self.recipe, self.precision = model, recipe, precision
        self.device = next(model.parameters()).device

    def forward(self, batch: Any, measure: bool = False) -> Any:
        with autocast_context(self.device, self.precision):
            return self.recipe.measure(self.model, batch) if measure else self.recipe.loss(self.model, batch)


def autocast_context(device: torch.device, precision: Precision) -> AbstractContextManager[object]:
    """Return a context in which matmuls use 16 bits, and weights stay float32; it does nothing for fp32."""
    dtype = DTYPES[precision]
    return nullcontext() if dtype is None else torch.autocast(device.type, dtype)
