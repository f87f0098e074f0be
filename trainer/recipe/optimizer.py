"""AdamW or an optimizer of the user's, the learning rate of every step, and a step that bad gradients do not pass."""

import inspect
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer

from ..config.instantiate import instantiate
from ..config.schema import SCHEDULE_KEYS, OptimConfig, ScheduleConfig
from ..config.target import Target
from ..lifecycle.errors import BrokenInput
from .loss_scale import PART, LossScale

OWN_SCHEDULE = "optim.schedule, optim.warmup_steps and optim.min_lr_ratio set the rate; or your own script after ` -- `"
CLIP_EPS = 1e-6  # added to the norm that is divided by, as in torch 2.13
NAMES = "parameter_names"  # beside `state` and `param_groups` in a checkpoint


@dataclass(frozen=True)
class Update:
    """Result of one optimizer step.

    grad_norm   of all gradients before clipping; when it or the loss is not finite it is not, and nothing was updated
    skipped     unless it was left out because fp16 overflowed; the next one uses a smaller loss_scale
    """

    grad_norm: float
    skipped: bool = False
    loss_scale: float = 1.0


class Rates:
    """Learning rates of an optimizer's groups: that of the step for the largest, the others in proportion to it, as
    they were when the optimizer was made. So layers may learn at rates of their own."""

    def __init__(self, optimizer: Optimizer) -> None:
        rates = [float(group["lr"]) for group in optimizer.param_groups]
        largest = max(rates)
        self._shares = [rate / largest if largest > 0 else 1.0 for rate in rates]
        self._last: list[float] = []  # of the step before, in this attempt

    def set(self, groups: list[dict[str, Any]], lr: float) -> None:
        """Raises BrokenInput when something else has changed a rate since the step before, such as a scheduler."""
        refuse_scheduler(groups)
        if self._last and (changed := [group["lr"] for group in groups if group["lr"] not in self._last]):
            raise BrokenInput(
                f"optim: something changed a learning rate to {float(changed[0]):g} between two steps",
                ["the trainer sets it before each step"],
                hint=OWN_SCHEDULE,
            )
        for group, share in zip(groups, self._shares, strict=True):
            group["lr"] = lr * share
        self._last = [group["lr"] for group in groups]


class Stepper:
    """The optimizer of one model whose gradients are there, whole or as DTensors.

    precision: of loop; whole: makes a norm that is spread over ranks the number that it is
    Raises BrokenInput for an optimizer whose step() computes the loss again.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: Optimizer,
        precision: str,
        whole: Callable[[Tensor], Tensor] = lambda norm: norm,
    ) -> None:
        refuse_closure(optimizer)
        self.optimizer = optimizer
        self.rates = Rates(optimizer)
        self.scale = LossScale(precision == "fp16")
        self._parameters = list(model.parameters())  # frozen ones as well: who freezes them may thaw them
        weights, groups = set(self._parameters), optimizer.param_groups
        self._others = [p for group in groups for p in group["params"] if p not in weights]  # no other rank knows them
        self._whole = whole

    def backward(self, loss: Tensor) -> None:
        torch.autograd.backward(loss * self.scale.factor if self.scale.used else loss)

    def norm(self) -> Tensor:
        """Return the norm of the model's gradients, on their device."""
        return self._whole(nn.utils.get_total_norm(gradients_of(self._parameters)))

    def update(self, lr: float, clip_norm: float | None, norm: float, factor: float, loss: float) -> Update:
        """norm: what norm() gave; factor: of all gradients, beside that of the loss scale; loss: of all ranks.

        All that gradients are multiplied by is one number, and often 1. Clipped as by torch.nn.utils.clip_grad_norm_.
        """
        factor /= self.scale.factor
        norm = norm * factor if math.isfinite(loss) else math.nan
        is_finite = math.isfinite(norm)
        # no scale is to blame for a loss that is not finite before it is scaled
        skipped = (is_finite or math.isfinite(loss)) and self.scale.skips(is_finite)
        if is_finite:  # before it reaches the weights; equal on all ranks
            if clip_norm is not None:
                factor *= min(1.0, clip_norm / (norm + CLIP_EPS))
            if factor != 1.0:
                torch._foreach_mul_(gradients_of([*self._parameters, *self._others]), factor)
            self.rates.set(self.optimizer.param_groups, lr)
            self.step()
        self.optimizer.zero_grad(set_to_none=True)
        return Update(norm, skipped, self.scale.factor)

    def step(self) -> None:
        """The optimizer's own."""
        self.optimizer.step()

    def load(self, state: Mapping[str, Any]) -> None:
        """The inverse of optimizer.state_dict() and scale.state() in one mapping."""
        self.optimizer.load_state_dict(optimizer_own_state(state))
        self.scale.load(state)


def gradients_of(parameters: Sequence[Tensor]) -> list[Tensor]:
    return [parameter.grad for parameter in parameters if parameter.grad is not None]


def optimizer_own_state(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the optimizer's own state_dict() from a checkpoint: `state`, `param_groups`, and custom entries."""
    return {key: value for key, value in state.items() if key != PART}


def names_of(optimizer: Optimizer, model: nn.Module) -> list[str]:
    """Return the names of its parameters by state_dict() index; `not from the model 0` and so on for others."""
    names, others = {parameter: name for name, parameter in model.named_parameters()}, itertools.count()
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    return [names[item] if item in names else f"not from the model {next(others)}" for item in parameters]


def reorder_state(state: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """The state of an optimizer in a checkpoint, numbered as the parameters are now, which `names` are of.

    They may have another order than when it was saved, such as that of a set. Raises ValueError when they are others.
    """
    saved = state.get(NAMES, names)  # older checkpoints do not say
    if difference := sorted(set(saved) ^ set(names)):
        raise ValueError("\n".join(["it has other parameters:", *difference]))
    unnamed = {key: value for key, value in state.items() if key != NAMES}
    if list(saved) == list(names):
        return unnamed
    now = {name: number for number, name in enumerate(names)}
    moments = {now[saved[number]]: moment for number, moment in state["state"].items()}
    return {**unnamed, "state": moments}


def refuse_scheduler(groups: Sequence[Mapping[str, Any]]) -> None:
    """Raises BrokenInput for an optimizer with a scheduler of torch 2.13, which leaves `initial_lr` in its groups."""
    if any("initial_lr" in group for group in groups):
        raise BrokenInput(
            "optim: a scheduler of torch.optim.lr_scheduler is attached to the optimizer", hint=OWN_SCHEDULE
        )


def refuse_closure(optimizer: Optimizer) -> None:
    """A step has its gradients already, clipped and of all ranks; LBFGS of torch 2.13 wants to compute them itself."""
    closure = inspect.signature(optimizer.step).parameters.get("closure")
    if closure is not None and closure.default is inspect.Parameter.empty:
        raise BrokenInput(
            f"optim: step() of {type(optimizer).__name__} needs a closure, which the trainer does not pass",
            hint="use another optimizer, such as torch.optim.AdamW, or your own script after ` -- `",
        )


def build_optimizer(model: nn.Module, config: OptimConfig | Target) -> Optimizer:
    """AdamW decays weights where it makes sense: matrices, not gains and biases. A user's has all alike."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if isinstance(config, Target):
        arguments = {key: value for key, value in config.items() if key not in SCHEDULE_KEYS or key == "lr"}
        optimizer = instantiate(arguments, "optim", parameters)
        if not isinstance(optimizer, Optimizer):
            raise BrokenInput(
                f"optim: {config.name} must return a torch.optim.Optimizer, not {type(optimizer).__name__}"
            )
        return optimizer
    groups = [
        {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": config.weight_decay},
        {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
    ]
    fused = all(parameter.is_floating_point() for parameter in parameters)  # torch 2.13 fuses no complex ones
    return AdamW(groups, lr=config.lr, betas=config.betas, eps=config.eps, fused=fused)


def lr_at(step: int, total_steps: int, config: OptimConfig | ScheduleConfig) -> float:
    """Learning rate of global step `step`, from 0: linear warm-up, then the schedule up to total_steps."""
    if step < config.warmup_steps:
        return config.lr * (step + 1) / config.warmup_steps
    if config.schedule == "constant":
        return config.lr
    progress = (step - config.warmup_steps) / max(total_steps - config.warmup_steps, 1)
    cosine = (1 + math.cos(math.pi * min(progress, 1.0))) / 2
    return config.lr * (config.min_lr_ratio + (1 - config.min_lr_ratio) * cosine)
