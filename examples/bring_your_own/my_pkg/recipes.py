"""A recipe, for what `_target_` cannot express: a model that is trained to remove noise, with its own score.

Shapes: B waves, P points.
"""

from typing import Any

import torch
from jobc_trainer.recipe import Recipe
from torch import Tensor, nn
from torch.nn import functional as F

from .data import Waves


class Denoise(Recipe):
    """Add noise to a batch of waves, and train the model to return the waves without it."""

    score = "error_of_the_mean"  # name of the second value that measure() returns

    def build_data(self) -> Any:
        return self.source(Waves(500, noise=0.0), Waves(101, first=500, noise=0.0))

    def build_model(self, source: Any) -> nn.Module:
        return nn.Sequential(nn.Linear(32, 48), nn.Tanh(), nn.Linear(48, 32))

    def build_optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.SGD(model.parameters(), momentum=0.9, nesterov=True)

    def loss(self, model: nn.Module, batch: Any) -> tuple[Tensor, int]:
        waves_BP, _ = batch
        noisy_BP = waves_BP + 0.3 * torch.randn_like(
            waves_BP
        )  # from the rank's generator, whose state is in checkpoints
        return F.mse_loss(model(noisy_BP), waves_BP, reduction="sum"), waves_BP.numel()

    def measure(self, model: nn.Module, batch: Any) -> tuple[Tensor, Tensor, int]:
        waves_BP, _ = batch
        cleaned_BP = model(waves_BP)
        bias = (cleaned_BP - waves_BP).sum()
        return F.mse_loss(cleaned_BP, waves_BP, reduction="sum"), bias, waves_BP.numel()
