"""Context manager for evaluating a model without gradients. It restores the model's mode afterwards."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn


@contextmanager
def eval_mode_without_gradients(model: nn.Module) -> Iterator[None]:
    """Switch to eval mode, then restore each module's own mode, because some modules may be frozen in eval mode."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        with torch.no_grad():  # not inference_mode, because ZeRO 3 keeps some of the weights that it gathers here
            yield
    finally:
        for module, was_training in modes:
            module.training = was_training
