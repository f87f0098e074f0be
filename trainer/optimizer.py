"""AdamW, and the learning rate of every step."""

import math

from torch import nn
from torch.optim import AdamW, Optimizer

from .config import OptimConfig


def build_optimizer(model: nn.Module, config: OptimConfig) -> Optimizer:
    """Weight decay only where it makes sense: matrices, not gains and biases."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    groups = [
        {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": config.weight_decay},
        {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
    ]
    return AdamW(groups, lr=config.lr, betas=config.betas, eps=config.eps, fused=True)


def lr_at(step: int, total_steps: int, config: OptimConfig) -> float:
    """Learning rate of global step `step`, from 0: linear warm-up, then the schedule up to total_steps."""
    if step < config.warmup_steps:
        return config.lr * (step + 1) / config.warmup_steps
    if config.schedule == "constant":
        return config.lr
    progress = (step - config.warmup_steps) / max(total_steps - config.warmup_steps, 1)
    cosine = (1 + math.cos(math.pi * min(progress, 1.0))) / 2
    return config.lr * (config.min_lr_ratio + (1 - config.min_lr_ratio) * cosine)
