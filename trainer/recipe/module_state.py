"""Restore a model's mode and buffers. Buffers, such as BatchNorm's running means, change even in a skipped step."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class SavedBuffers:
    """Copies of a module's buffers. If is_active is false, nothing is copied, and restore() does nothing."""

    def __init__(self, module: nn.Module, is_active: bool = True) -> None:
        self._copies: list[tuple[Tensor, Tensor]] = []
        if is_active:
            self._copies = [(buffer, buffer.detach().clone()) for buffer in module.buffers()]

    def restore(self) -> None:
        """Undo the changes that forward passes made since the copies were taken."""
        for buffer, copy in self._copies:
            buffer.copy_(copy)
        self._copies = []


@contextmanager
def preserve_buffers(module: nn.Module, is_active: bool = True) -> Iterator[None]:
    """Restore the buffers at the end of the block. If is_active is false, do nothing."""
    buffers = SavedBuffers(module, is_active)
    yield
    buffers.restore()


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
