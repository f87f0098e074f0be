"""Losses, which are called with the model's outputs and a batch's targets. Shapes: B samples, K kinds."""

import torch
from torch import Tensor
from torch.nn import functional as F


def smoothed(logits_BK: Tensor, targets_B: Tensor, smoothing: float) -> Tensor:
    """Return loss_B, one number per sample. The trainer computes the mean over the samples of all ranks."""
    return F.cross_entropy(logits_BK, targets_B, label_smoothing=smoothing, reduction="none")


def of_hard_ones(logits_BK: Tensor, targets_B: Tensor, least: float) -> tuple[Tensor, Tensor]:
    """Return (sum, count) of the losses above `least`. The other samples do not count."""
    loss_B = F.cross_entropy(logits_BK, targets_B, reduction="none")
    counts_B = loss_B.detach() > least
    return torch.where(counts_B, loss_B, 0.0).sum(), counts_B.sum()
