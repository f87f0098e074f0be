"""What the ways have in common whose gradients torch's own optimizer takes as they are."""

import torch
from torch import Tensor

from ..optimizer import Stepper, Update


class Stepped:
    """Part of way.Parallel: all that a Stepper does."""

    stepper: Stepper

    @property
    def counts_ahead(self) -> bool:
        return self.stepper.scale.used

    def warm_up(self, loss: Tensor) -> None:
        torch.autograd.backward(loss)
        self.stepper.optimizer.zero_grad(set_to_none=True)

    def backward(self, loss: Tensor, last: bool) -> None:
        self.stepper.backward(loss)

    def norm(self) -> Tensor:
        return self.stepper.norm()

    def update(self, lr: float, clip_norm: float | None, norm: float | None, factor: float, loss: float) -> Update:
        assert norm is not None  # it was read
        return self.stepper.update(lr, clip_norm, norm, factor, loss)
