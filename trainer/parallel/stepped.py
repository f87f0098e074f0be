"""Code shared by the kinds of parallelism that use a torch optimizer."""

import torch
from torch import Tensor

from ..dist.process_group import RankGroup
from ..recipe.optimizer import Stepper, StepUpdate


class Stepped:
    """The methods of interface.Parallel that a Stepper implements."""

    stepper: Stepper

    group: RankGroup

    @property
    def counts_ahead(self) -> bool:
        """See interface.Parallel. False on CPUs without fp16, because there waiting for messages detects lost peers."""
        return self.stepper.scale.used or self.group.device.type == "cuda"

    def warm_up(self, loss: Tensor, counted: bool) -> None:
        torch.autograd.backward(loss)
        self.stepper.optimizer.zero_grad(set_to_none=True)

    def backward(self, loss: Tensor, last: bool) -> None:
        self.stepper.backward(loss)

    def norm(self) -> Tensor:
        return self.stepper.norm()

    def update(self, lr: float, clip_norm: float | None, norm: float | None, factor: float, loss: float) -> StepUpdate:
        assert norm is not None
        return self.stepper.update(lr, clip_norm, norm, factor, loss)
