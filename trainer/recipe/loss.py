"""Model and loss as one module, so that torch.compile fuses them; and checks of a loss that is a module itself."""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal

import torch
from torch import Tensor, nn

from ..config.schema import kind_of
from ..lifecycle.errors import BrokenInput, list_names
from .recipe import Recipe

Precision = Literal["fp32", "bf16", "fp16"]
INTO_THE_MODEL = "make the loss part of the model in a recipe's build_model(), and call it in the recipe's loss()"
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


def move_loss_to_device(recipe: Recipe, device: torch.device) -> None:
    """Move a loss that is a module to the device. Raises BrokenInput if it has parameters, which would not train."""
    if isinstance(recipe.items_of, nn.Module):
        if names := [name for name, parameter in recipe.items_of.named_parameters() if parameter.requires_grad]:
            kind, shown = kind_of(recipe.config.loss), list_names(names)
            raise BrokenInput(f"loss: {kind} has parameters, which would not be trained: {shown}", hint=INTO_THE_MODEL)
        recipe.items_of.to(device)


def copy_loss_buffers(recipe: Recipe) -> dict[str, Tensor]:
    """Return copies of the loss's buffers; empty if it is not a module."""
    named = recipe.items_of.named_buffers() if isinstance(recipe.items_of, nn.Module) else ()
    return {name: buffer.detach().clone() for name, buffer in named}


def require_unchanged_loss_buffers(recipe: Recipe, before: Mapping[str, Tensor]) -> None:
    """Raise BrokenInput if a pass changed the loss's buffers: a resume would start with their initial values."""
    after = copy_loss_buffers(recipe)
    if changed := [name for name, buffer in before.items() if not torch.equal(buffer, after[name])]:
        kind, shown = kind_of(recipe.config.loss), list_names(changed)
        raise BrokenInput(f"loss: {kind} changes buffers, which would not be saved: {shown}", hint=INTO_THE_MODEL)
