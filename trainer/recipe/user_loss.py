"""Check a loss that is a module, such as CrossEntropyLoss with class weights, and move it to the device."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from ..config.schema import kind_of
from ..lifecycle.errors import BrokenInput
from .recipe import Recipe

INTO_THE_MODEL = "make the loss part of the model in a recipe's build_model(), and call it in the recipe's loss()"


def move_loss_to_device(recipe: Recipe, device: torch.device) -> None:
    """Move a loss that is a module to the device. Raises BrokenInput if it has parameters, which would not train."""
    if isinstance(recipe.items_of, nn.Module):
        if names := [name for name, parameter in recipe.items_of.named_parameters() if parameter.requires_grad]:
            kind, shown = kind_of(recipe.config.loss), ", ".join(names[:8])
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
        raise BrokenInput(
            f"loss: {kind_of(recipe.config.loss)} changes buffers, which would not be saved: {', '.join(changed[:8])}",
            hint=INTO_THE_MODEL,
        )
