"""Handle NaN or Inf in a loss or gradient: loop.on_nan=stop ends the run, loop.on_nan=skip skips the update.

All ranks call these functions together and make the same decision because it depends on sums over all ranks.
"""

import math

import torch

from ..build.build import Training
from ..lifecycle.errors import BrokenInput, LossDiverged
from ..recipe.optimizer import StepUpdate
from .step_sums import StepSums, StepTotals


def require_items(training: Training, step: int, totals: StepTotals) -> None:
    """Raise BrokenInput if the step has no items to train on and on_nan=stop."""
    if totals.items <= 0 and training.config.loop.on_nan == "stop":
        hint = "loop.on_nan=skip skips such steps; or use a larger batch"
        raise BrokenInput(f"data: step {step + 1} has no items to train on, on any rank", hint=hint)


def skip_reason(training: Training, step: int, totals: StepTotals, update: StepUpdate, sums: StepSums) -> str:
    """Return why the update was skipped, or "". Raises LossDiverged if on_nan=stop.

    An update that was skipped because the fp16 loss scale was too large does not count.
    """
    is_finite = math.isfinite(update.grad_norm)
    if math.isfinite(totals.mean_loss) and (is_finite or update.skipped):
        return ""
    if training.config.loop.on_nan == "stop":
        raise divergence_error(training, step, sums.local_loss)
    if totals.items <= 0:
        return "no items to train on, on any rank"
    return "" if is_finite else ", ".join(nonfinite_ranks(training, sums.local_loss))


def divergence_error(training: Training, step: int, local_loss: float) -> LossDiverged:
    """Return the error that names the step and the ranks with a NaN or Inf loss."""
    return LossDiverged(
        f"NaN or Inf in the loss or its gradient at step {step + 1}",
        nonfinite_ranks(training, local_loss),
        hint="the newest checkpoint is older than this step; try a lower optim.lr or optim.clip_norm in a new"
        " run from its weights (--fork, from step 0), or --resume with loop.on_nan=skip",
    )


def nonfinite_ranks(training: Training, local_loss: float) -> list[str]:
    """Return a line for each rank whose loss is NaN or Inf, at most 20; if there is none, a line about the gradient."""
    losses = training.group.gather(torch.tensor([local_loss], dtype=torch.float64))
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
            hint = "the newest checkpoint may predate these steps; try a lower optim.lr or optim.clip_norm in a"
            hint += " new run from its weights (--fork, from step 0)"
            title = f"NaN or Inf gradients in more than {self._limit} steps in a row, up to step {done}"
            raise LossDiverged(title, [reason], hint)
        if not reason:
            return ""
        row = f"{self._in_a_row} in a row, limit {self._limit}"
        return f"warning: step {done} skipped without updating the weights: {reason}; {row}"
