"""Handle NaN or Inf in a loss or gradient: loop.on_nan=stop ends the run, loop.on_nan=skip skips the update.

All ranks call these functions together and make the same decision because it depends on sums over all ranks.
"""

import math

import torch

from ..build.build import Training
from ..lifecycle.errors import BrokenInput, LossDiverged
from ..recipe.optimizer import StepUpdate
from .step_sums import StepSums, StepTotals

LOWER_RATE = "try a lower optim.lr or optim.clip_norm in a new run from the newest checkpoint (--fork, from step 0)"


def require_counted_items(training: Training, step: int, totals: StepTotals) -> None:
    """Raise BrokenInput if the step has no items to train on and on_nan=stop."""
    if totals.items <= 0 and training.config.loop.on_nan == "stop":
        hint = "loop.on_nan=skip skips such steps; or use a larger batch"
        raise BrokenInput(f"data: no rank has items to train on in step {step + 1}", hint=hint)


def skip_reason(training: Training, step: int, totals: StepTotals, update: StepUpdate, sums: StepSums) -> str:
    """Return why the update was skipped, other than by an fp16 overflow, or "". Raises LossDiverged if on_nan=stop."""
    is_finite = math.isfinite(update.grad_norm)
    if math.isfinite(totals.mean_loss) and (is_finite or update.skipped):
        return ""
    if training.config.loop.on_nan == "stop":
        title = f"NaN or Inf in the loss or its gradient at step {step + 1}"
        hint = f"{LOWER_RATE}, or --resume with loop.on_nan=skip"
        raise LossDiverged(title, describe_nonfinite_ranks(training, sums.local_loss), hint)
    if totals.items <= 0:
        return "no rank has items to train on"
    return "" if is_finite else ", ".join(describe_nonfinite_ranks(training, sums.local_loss))


def describe_nonfinite_ranks(training: Training, local_loss: float) -> list[str]:
    """Return a line for each rank whose loss is NaN or Inf, at most 20; if there is none, a line about the gradient."""
    losses = training.group.all_gather(torch.tensor([local_loss], dtype=torch.float64))
    lines = [
        f"the loss of rank {rank} is {float(loss)}" for rank, loss in enumerate(losses) if not torch.isfinite(loss)
    ]
    return lines[:20] or [f"the gradient is not finite; the loss of rank {training.group.rank} is {local_loss}"]


class SkipCounter:
    """Counter of consecutive skipped updates. It is the same on all ranks. limit: loop.max_skips"""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._in_a_row = 0

    def after_step(self, done: int, reason: str) -> str:
        """Return a warning about step `done`, or "". Raises LossDiverged after too many skipped updates in a row.

        reason: StepResult.skip_reason.
        """
        self._in_a_row = self._in_a_row + 1 if reason else 0
        if self._in_a_row > self._limit:
            title = f"NaN or Inf gradients in more than {self._limit} steps in a row, up to step {done}"
            raise LossDiverged(title, [reason], LOWER_RATE)
        if not reason:
            return ""
        row = f"{self._in_a_row} in a row, limit {self._limit}"
        return f"warning: step {done} skipped without updating the weights: {reason}; {row}"
