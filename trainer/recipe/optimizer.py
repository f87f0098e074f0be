"""Build the optimizer and schedule its learning rates."""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

from torch import nn
from torch.optim import AdamW, Optimizer

from ...runtime.system.frozen_dataclass import dataclass
from ..config.instantiate import instantiate_target
from ..config.schema import SCHEDULE_KEYS, OptimConfig, ScheduleConfig
from ..config.target import Target
from ..lifecycle.errors import BrokenInput

OWN_SCHEDULE = "optim.schedule, optim.warmup_steps and optim.min_lr_ratio set the rate; or your own script after ` -- `"
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
