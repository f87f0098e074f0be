"""The result of one optimizer step, for the hooks that follow it."""

from ...runtime.system.frozen_dataclass import dataclass
from ..recipe.optimizer import StepUpdate
from .rank_requests import StopAndSaveRequests


@dataclass(frozen=True)
class StepResult:
    """Result of one optimizer step.

    loss:        per item (nats for cross-entropy), exact and equal on all ranks.
    num_samples: samples of all ranks, without padding.
    forward_s:   GPU seconds of this rank's forward passes; None on a CPU, where the phases measure it.
    skip_reason: why the update was skipped (NaN or Inf in loss or gradient); "" = not skipped.
    requests:    of any rank.
    """

    loss: float
    num_samples: int
    lr: float
    update: StepUpdate
    forward_s: float | None
    skip_reason: str
    requests: StopAndSaveRequests
