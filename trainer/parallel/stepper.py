"""Steps of a torch optimizer: loss scaling, gradient norm, clipping and update. A step with a NaN or Inf gradient is
skipped.
"""

import inspect
import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from ..dist.process_group import RankGroup
from ..lifecycle.errors import BrokenInput
from ..recipe.optimizer import GroupLearningRates, StepUpdate

CLIP_EPS = 1e-6  # added to the norm before the division, as in torch 2.13
PART = "loss_scale"  # key in a checkpoint, next to the optimizer's keys
FIRST, SMALLEST, GOOD_STEPS = 2.0**16, 1.0, 2000  # the scale doubles after GOOD_STEPS, as in torch.amp.GradScaler


class LossScale:
    """Dynamic loss scaling for fp16, which prevents gradients from underflowing and skips a step if they overflow.

    factor: factor by which the loss is multiplied before the backward pass; always 1 without fp16.
    torch.amp.GradScaler checks on each rank whether that rank's gradients are finite. Here, the global gradient norm
    decides, so that all ranks agree without another message.
    """

    def __init__(self, used: bool) -> None:
        self.used = used
        self.factor = FIRST if used else 1.0
        self.good_steps = 0

    def update(self, finite: bool) -> bool:
        """Update the factor after the backward passes of a step. Return whether to skip the step because of overflow.

        finite: whether all gradients are finite.
        Returns False if all gradients are finite, and also if the factor cannot be reduced further.
        """
        if not self.used:
            return False
        if finite:
            self.good_steps += 1
            if self.good_steps == GOOD_STEPS:
                self.factor, self.good_steps = self.factor * 2, 0
            return False
        self.good_steps = 0
        if self.factor <= SMALLEST:
            return False
        self.factor /= 2
        return True

    def state(self) -> dict[str, Any]:
        """Return the entry for a checkpoint, which is empty without fp16."""
        return {PART: {"factor": self.factor, "good_steps": self.good_steps}} if self.used else {}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restore state() from a checkpoint. A checkpoint from a run without fp16 has no entry and changes nothing."""
        if self.used and PART in state:
            self.factor, self.good_steps = state[PART]["factor"], state[PART]["good_steps"]


class Stepper:
    """The methods of Parallel for a torch optimizer, with plain gradients or DTensors.

    precision: loop.precision.
    Raises BrokenInput for an optimizer whose step() needs a closure.
    """

    group: RankGroup

    def __init__(self, model: nn.Module, optimizer: Optimizer, precision: str) -> None:
        require_no_closure(optimizer)
        self.model, self.optimizer = model, optimizer
        self.rates = GroupLearningRates(optimizer)
        self.scale = LossScale(precision == "fp16")
        self._parameters = list(model.parameters())  # including frozen ones, which may be unfrozen later
        weights, groups = set(self._parameters), optimizer.param_groups
        self._others = [p for group in groups for p in group["params"] if p not in weights]  # not part of the norm

    @property
    def counts_ahead(self) -> bool:
        """See Parallel. False on CPUs without fp16, because there waiting for messages detects lost peers."""
        return self.scale.used or self.group.device.type == "cuda"

    def run_warm_up_backward(self, loss: Tensor, counted: bool) -> None:
        torch.autograd.backward(loss)
        self.optimizer.zero_grad(set_to_none=True)

    def backward(self, loss: Tensor, last: bool) -> None:
        torch.autograd.backward(loss * self.scale.factor if self.scale.used else loss)

    def gradient_norm(self) -> Tensor:
        return nn.utils.get_total_norm(collect_gradients(self._parameters))

    def update(self, lr: float, clip_norm: float | None, norm: float | None, factor: float, loss: float) -> StepUpdate:
        """See Parallel. Clipping works as in torch.nn.utils.clip_grad_norm_. The factor is combined with the loss scale
        and with clipping, so that gradients are multiplied at most once.
        """
        assert norm is not None
        factor /= self.scale.factor
        norm = norm * factor if math.isfinite(loss) else math.nan
        is_finite = math.isfinite(norm)
        # a NaN or Inf loss is not caused by the loss scale, which is applied afterwards
        skipped = (is_finite or math.isfinite(loss)) and self.scale.update(is_finite)
        if is_finite:  # the same on all ranks
            if clip_norm is not None:
                factor *= min(1.0, clip_norm / (norm + CLIP_EPS))
            if factor != 1.0:
                torch._foreach_mul_(collect_gradients([*self._parameters, *self._others]), factor)
            self.rates.set_rates(self.optimizer.param_groups, lr)
            self.step()
        self.optimizer.zero_grad(set_to_none=True)
        return StepUpdate(norm, skipped, self.scale.factor)

    def step(self) -> None:
        self.optimizer.step()

    def optimizer_state(self) -> Mapping[str, Any]:
        return {**self.optimizer.state_dict(), **self.scale.state()}

    def load_optimizer(self, state: Mapping[str, Any]) -> None:
        self.optimizer.load_state_dict(optimizer_own_state(state))
        self.scale.load_state(state)


def collect_gradients(parameters: Sequence[Tensor]) -> list[Tensor]:
    return [parameter.grad for parameter in parameters if parameter.grad is not None]


def optimizer_own_state(state: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in state.items() if key != PART}


def require_no_closure(optimizer: Optimizer) -> None:
    """Raise BrokenInput if step() needs a closure that recomputes gradients, as LBFGS in torch 2.13 does."""
    closure = inspect.signature(optimizer.step).parameters.get("closure")
    if closure is not None and closure.default is inspect.Parameter.empty:
        title = f"optim: step() of {type(optimizer).__name__} needs a closure, which the trainer does not pass"
        raise BrokenInput(
            title, hint="use another optimizer, such as torch.optim.AdamW; or your own script after ` -- `"
        )
