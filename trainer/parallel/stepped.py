"""What the ways have in common whose gradients torch's own optimizer takes as they are."""

import torch
from torch import Tensor

from ..optimizer import Stepper, Update


class Stepped:
    """Part of way.Parallel: all that a Stepper does."""

    stepper: Stepper

    def warm_up(self, loss: Tensor) -> None:
        torch.autograd.backward(loss)
        self.stepper.optimizer.zero_grad(set_to_none=True)

    def backward(self, loss: Tensor, last: bool) -> None:
        self.stepper.backward(loss)

    def rescale(self, factor: float) -> None:
        self.stepper.rescale(factor)

    def update(self, lr: float, clip_norm: float | None, loss: Tensor) -> Update:
        return self.stepper.update(lr, clip_norm, loss)
