"""A loss that is a module, such as CrossEntropyLoss with weights of classes: what it may have, and what is refused."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from ..config.schema import kind_of
from ..lifecycle.errors import BrokenInput
from .recipe import Recipe

INTO_THE_MODEL = "make it part of the model in build_model() of a recipe, and call it in loss()"


def place_loss(made: Recipe, device: torch.device) -> None:
    """A loss that is a module goes where the model is.

    Raises BrokenInput when it has parameters to train: no optimizer has them, and no checkpoint.
    """
    if isinstance(made.items_of, nn.Module):
        if names := [name for name, parameter in made.items_of.named_parameters() if parameter.requires_grad]:
            raise BrokenInput(
                f"loss: {kind_of(made.config.loss)} has parameters, which would not be trained: {', '.join(names[:8])}",
                hint=INTO_THE_MODEL,
            )
        made.items_of.to(device)


def buffers_of_loss(made: Recipe) -> dict[str, Tensor]:
    """Copies of them, of a loss that is a module."""
    named = made.items_of.named_buffers() if isinstance(made.items_of, nn.Module) else ()
    return {name: buffer.detach().clone() for name, buffer in named}


def refuse_other_buffers(made: Recipe, before: Mapping[str, Tensor]) -> None:
    """Raises BrokenInput when the loss has changed its buffers in a pass: a resume would begin with the first ones."""
    after = buffers_of_loss(made)
    if changed := [name for name, buffer in before.items() if not torch.equal(buffer, after[name])]:
        raise BrokenInput(
            f"loss: {kind_of(made.config.loss)} changes buffers, which would not be saved: {', '.join(changed[:8])}",
            hint=INTO_THE_MODEL,
        )
