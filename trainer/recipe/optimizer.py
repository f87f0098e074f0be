"""Build the optimizer, schedule its learning rates, and run its steps. A step with a NaN or Inf gradient is skipped."""

import inspect
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer

from ...runtime.system.frozen_dataclass import dataclass
from ..config.instantiate import instantiate_target
from ..config.schema import SCHEDULE_KEYS, OptimConfig, ScheduleConfig
from ..config.target import Target
from ..lifecycle.errors import BrokenInput
from .loss_scale import PART, LossScale

OWN_SCHEDULE = "optim.schedule, optim.warmup_steps and optim.min_lr_ratio set the rate; or your own script after ` -- `"
CLIP_EPS = 1e-6  # added to the norm before the division, as in torch 2.13
NAMES = "parameter_names"  # key in a checkpoint, next to `state` and `param_groups`


@dataclass(frozen=True)
class StepUpdate:
    """Result of one optimizer step.

    grad_norm:  norm of all gradients before clipping. It is NaN or Inf if the loss or a gradient was not finite, in
                which case nothing was updated.
    skipped:    whether the update was skipped because fp16 overflowed; the next step uses a smaller loss_scale.
    """

    grad_norm: float
    skipped: bool = False
    loss_scale: float = 1.0


class GroupLearningRates:
    """Learning rates of an optimizer's groups. The largest rate follows the schedule, and the rates of other groups
    keep their initial ratio to it, so that layers can have different rates.
    """

    def __init__(self, optimizer: Optimizer) -> None:
        rates = [float(group["lr"]) for group in optimizer.param_groups]
        largest = max(rates)
        self._shares = [rate / largest if largest > 0 else 1.0 for rate in rates]
        self._last: list[float] = []  # rates of the previous step in this attempt

    def set_rates(self, groups: list[dict[str, Any]], lr: float) -> None:
        """Set a step's rates. Raises BrokenInput if other code, such as a scheduler, has changed one in between."""
        require_no_scheduler(groups)
        if self._last and (changed := [group["lr"] for group in groups if group["lr"] not in self._last]):
            title = f"optim: something changed a learning rate to {float(changed[0]):g} between two steps"
            raise BrokenInput(title, ["the trainer sets the learning rate before each step"], hint=OWN_SCHEDULE)
        for group, share in zip(groups, self._shares, strict=True):
            group["lr"] = lr * share
        self._last = [group["lr"] for group in groups]


class Stepper:
    """Optimizer steps for one model, with plain gradients or DTensors.

    precision: loop.precision.
    Raises BrokenInput for an optimizer whose step() needs a closure.
    """

    def __init__(self, model: nn.Module, optimizer: Optimizer, precision: str) -> None:
        require_no_closure(optimizer)
        self.optimizer = optimizer
        self.rates = GroupLearningRates(optimizer)
        self.scale = LossScale(precision == "fp16")
        self._parameters = list(model.parameters())  # including frozen ones, which may be unfrozen later
        weights, groups = set(self._parameters), optimizer.param_groups
        self._others = [p for group in groups for p in group["params"] if p not in weights]  # not part of the norm

    def backward(self, loss: Tensor) -> None:
        torch.autograd.backward(loss * self.scale.factor if self.scale.used else loss)

    def gradient_norm(self) -> Tensor:
        return nn.utils.get_total_norm(collect_gradients(self._parameters))

    def update(self, lr: float, clip_norm: float | None, norm: float, factor: float, loss: float) -> StepUpdate:
        """Run one optimizer step. Clipping works as in torch.nn.utils.clip_grad_norm_.

        norm:   result of gradient_norm().
        factor: factor by which all gradients are multiplied. It is combined with the loss scale and with clipping, so
                that gradients are multiplied at most once.
        loss:   mean over all ranks.
        """
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

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Load a mapping that contains the entries of optimizer.state_dict() and scale.state()."""
        self.optimizer.load_state_dict(optimizer_own_state(state))
        self.scale.load_state(state)


def collect_gradients(parameters: Sequence[Tensor]) -> list[Tensor]:
    return [parameter.grad for parameter in parameters if parameter.grad is not None]


def optimizer_own_state(state: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in state.items() if key != PART}


def parameter_names_by_index(optimizer: Optimizer, model: nn.Module) -> list[str]:
    """Return the parameter names by state_dict() index; `not from the model N` for those that are not in the model."""
    names, others = {parameter: name for name, parameter in model.named_parameters()}, itertools.count()
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    return [names[item] if item in names else f"not from the model {next(others)}" for item in parameters]


def reorder_state(state: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Renumber the optimizer state of a checkpoint for the current parameter order, given by `names`.

    The order may have changed since the save, for example if the parameters come from a set. Raises ValueError if the
    parameter names differ, and KeyError if the checkpoint has none.
    """
    saved = state[NAMES]
    if difference := sorted(set(saved) ^ set(names)):
        raise ValueError("\n".join(["the optimizer has other parameters:", *difference]))
    unnamed = {key: value for key, value in state.items() if key != NAMES}
    if list(saved) == list(names):  # a custom optimizer's state may not be numbered by parameter
        return unnamed
    numbers = {name: number for number, name in enumerate(names)}
    moments = {numbers[saved[number]]: moment for number, moment in state["state"].items()}
    return {**unnamed, "state": moments}


def require_no_scheduler(groups: Sequence[Mapping[str, Any]]) -> None:
    """Raise BrokenInput for an optimizer with a torch scheduler, which adds `initial_lr` to its groups (torch 2.13)."""
    if any("initial_lr" in group for group in groups):
        raise BrokenInput("optim: the optimizer has a scheduler from torch.optim.lr_scheduler", hint=OWN_SCHEDULE)


def require_no_closure(optimizer: Optimizer) -> None:
    """Raise BrokenInput if step() needs a closure that recomputes gradients, as LBFGS in torch 2.13 does."""
    closure = inspect.signature(optimizer.step).parameters.get("closure")
    if closure is not None and closure.default is inspect.Parameter.empty:
        title = f"optim: step() of {type(optimizer).__name__} needs a closure, which the trainer does not pass"
        raise BrokenInput(title, hint="use torch.optim.AdamW or another one, or your own script after ` -- `")


def build_optimizer(model: nn.Module, config: OptimConfig | Target) -> Optimizer:
    """Build AdamW, with weight decay only for matrices, or the user's optimizer, with all parameters in one group."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if isinstance(config, Target):
        arguments = {key: value for key, value in config.items() if key not in SCHEDULE_KEYS or key == "lr"}
        optimizer = instantiate_target(arguments, "optim", parameters)
        if not isinstance(optimizer, Optimizer):
            kind = type(optimizer).__name__
            raise BrokenInput(f"optim: {config.name} must return a torch.optim.Optimizer, not {kind}")
        return optimizer
    groups = [
        {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": config.weight_decay},
        {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
    ]
    fused = all(parameter.is_floating_point() for parameter in parameters)  # not for complex tensors in torch 2.13
    return AdamW(groups, lr=config.lr, betas=config.betas, eps=config.eps, fused=fused)


def learning_rate_at_step(step: int, total_steps: int, config: OptimConfig | ScheduleConfig) -> float:
    """Return the learning rate of global step `step`, counted from 0: linear warm-up, then config.schedule."""
    if step < config.warmup_steps:
        return config.lr * (step + 1) / config.warmup_steps
    if config.schedule == "constant":
        return config.lr
    progress = (step - config.warmup_steps) / max(total_steps - config.warmup_steps, 1)
    cosine = (1 + math.cos(math.pi * min(progress, 1.0))) / 2
    return config.lr * (config.min_lr_ratio + (1 - config.min_lr_ratio) * cosine)
