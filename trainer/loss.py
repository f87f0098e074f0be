"""A model and what a recipe does with it, as one module: whatever wraps it sees one forward pass."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal

import torch
from torch import nn

from .recipe import Recipe

Precision = Literal["fp32", "bf16"]


class WithLoss(nn.Module):
    """(batch) -> loss_sum and count; (batch, measure=True) -> loss_sum, score_sum and count. See recipe.py."""

    def __init__(self, model: nn.Module, recipe: Recipe, precision: Precision) -> None:
        super().__init__()
        self.model, self.recipe, self.precision = model, recipe, precision
        self.device = next(model.parameters()).device

    def forward(self, batch: Any, measure: bool = False) -> Any:
        with autocast(self.device, self.precision):
            return self.recipe.measure(self.model, batch) if measure else self.recipe.loss(self.model, batch)


def autocast(device: torch.device, precision: Precision) -> AbstractContextManager[object]:
    """bf16: matrix products in bfloat16 over float32 weights. fp32: nothing."""
    return torch.autocast(device.type, torch.bfloat16) if precision == "bf16" else nullcontext()
