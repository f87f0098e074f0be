"""AdamW or an optimizer of the user's, and the learning rate of every step."""

import math

from torch import nn
from torch.optim import AdamW, Optimizer

from .config import SCHEDULE_KEYS, OptimConfig, ScheduleConfig
from .errors import BrokenInput
from .instantiate import instantiate
from .target import Target


def build_optimizer(model: nn.Module, config: OptimConfig | Target) -> Optimizer:
    """AdamW decays weights where it makes sense: matrices, not gains and biases. A user's has all alike."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if isinstance(config, Target):
        arguments = {key: value for key, value in config.items() if key not in SCHEDULE_KEYS or key == "lr"}
        optimizer = instantiate(arguments, "optim", parameters)
        if not isinstance(optimizer, Optimizer):
            raise BrokenInput(f"optim: {config.name} gave no torch.optim.Optimizer, but {type(optimizer).__name__}")
        return optimizer
    groups = [
        {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": config.weight_decay},
        {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
    ]
    return AdamW(groups, lr=config.lr, betas=config.betas, eps=config.eps, fused=True)


def lr_at(step: int, total_steps: int, config: OptimConfig | ScheduleConfig) -> float:
    """Learning rate of global step `step`, from 0: linear warm-up, then the schedule up to total_steps."""
    if step < config.warmup_steps:
        return config.lr * (step + 1) / config.warmup_steps
    if config.schedule == "constant":
        return config.lr
    progress = (step - config.warmup_steps) / max(total_steps - config.warmup_steps, 1)
    cosine = (1 + math.cos(math.pi * min(progress, 1.0))) / 2
    return config.lr * (config.min_lr_ratio + (1 - config.min_lr_ratio) * cosine)
