"""Losses: called with the model's outputs and the targets of a batch. Shapes: B samples, K kinds."""

import torch
from torch import Tensor
from torch.nn import functional as F


def smoothed(logits_BK: Tensor, targets_B: Tensor, smoothing: float) -> Tensor:
    """loss_B: one number for each sample. The trainer takes the mean over the samples of all ranks."""
    return F.cross_entropy(logits_BK, targets_B, label_smoothing=smoothing, reduction="none")


def of_hard_ones(logits_BK: Tensor, targets_B: Tensor, least: float) -> tuple[Tensor, Tensor]:
    """(sum, count) where not every sample counts: only losses above `least` do."""
    loss_B = F.cross_entropy(logits_BK, targets_B, reduction="none")
    counts_B = loss_B.detach() > least
    return torch.where(counts_B, loss_B, 0.0).sum(), counts_B.sum()
