"""Shared by the kinds whose gradients go to torch's own optimizer."""

import torch
from torch import Tensor

from ..dist.process_group import Group
from ..recipe.optimizer import Stepper, Update


class Stepped:
    """Part of interface.Parallel: all that a Stepper does."""

    stepper: Stepper

    group: Group

    @property
    def counts_ahead(self) -> bool:
        """Return whether counts are exchanged ahead; not on CPUs, where messages detect lost peers anyway."""
        return self.stepper.scale.used or self.group.device.type == "cuda"

    def warm_up(self, loss: Tensor, counted: bool) -> None:
        torch.autograd.backward(loss)
        self.stepper.optimizer.zero_grad(set_to_none=True)

    def backward(self, loss: Tensor, last: bool) -> None:
        self.stepper.backward(loss)

    def norm(self) -> Tensor:
        return self.stepper.norm()

    def update(self, lr: float, clip_norm: float | None, norm: float | None, factor: float, loss: float) -> Update:
        assert norm is not None  # it was read
        return self.stepper.update(lr, clip_norm, norm, factor, loss)
