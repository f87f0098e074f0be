"""The result of one optimizer step, for the hooks that follow it."""

from ...runtime.system.frozen_dataclass import dataclass
from ..recipe.optimizer import StepUpdate
from .rank_requests import StopAndSaveRequests


@dataclass(frozen=True)
class StepResult:
    """Result of one optimizer step.

    loss:        exact loss per item (in nats for cross-entropy); the same on all ranks.
    num_samples: number of samples on all ranks, without padding.
    forward_s:   GPU seconds of this rank's forward passes; None on a CPU, where the phases measure this time.
    skip_reason: why the update was skipped (NaN or Inf in loss or gradient); "" if it was not skipped.
    requests:    requests of any rank.
    """

    loss: float
    num_samples: int
    lr: float
    update: StepUpdate
    forward_s: float | None
    skip_reason: str
    requests: StopAndSaveRequests
