"""Result of one optimizer step, for the hooks that follow it."""

from dataclasses import dataclass

from ..recipe.optimizer import Update
from .rank_requests import Requests


@dataclass(frozen=True)
class StepResult:
    """loss in nats per item, exact and equal on all ranks; num_samples that counted, of all ranks.

    forward_s    seconds of all forward passes of this rank on its GPU; None on a CPU, where the phases measure it
    skip_reason  why the update was skipped: loss or gradient is NaN or Inf; "" = it was not
    requests     of any rank
    """

    loss: float
    num_samples: int
    lr: float
    update: Update
    forward_s: float | None
    skip_reason: str
    requests: Requests
