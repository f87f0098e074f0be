"""Dynamic loss scaling for fp16, which prevents gradients from underflowing and skips a step if they overflow."""

from collections.abc import Mapping
from typing import Any

PART = "loss_scale"  # key in a checkpoint, next to the optimizer's keys
FIRST, SMALLEST, GOOD_STEPS = 2.0**16, 1.0, 2000  # the scale doubles after GOOD_STEPS, as in torch.amp.GradScaler


class LossScale:
    """Factor by which the loss is multiplied before the backward pass; always 1 without fp16. Checkpoints contain the
    factor's state.

    torch.amp.GradScaler checks on each rank whether that rank's gradients are finite. Here, the global gradient norm
    decides, so that all ranks agree without another message.
    """

    def __init__(self, used: bool) -> None:
        self.used = used
        self.factor = FIRST if used else 1.0
        self.good_steps = 0

    def update(self, finite: bool) -> bool:
        """Update the factor after the backward passes of a step. Return whether to skip the step because of overflow.

        finite: whether all gradients are finite.
        Returns False if all gradients are finite, and also if the factor cannot be reduced further.
        """
        if not self.used:
            return False
        if finite:
            self.good_steps += 1
            if self.good_steps == GOOD_STEPS:
                self.factor, self.good_steps = self.factor * 2, 0
            return False
        self.good_steps = 0
        if self.factor <= SMALLEST:
            return False
        self.factor /= 2
        return True

    def state(self) -> dict[str, Any]:
        """Return the entry for a checkpoint, which is empty without fp16."""
        return {PART: {"factor": self.factor, "good_steps": self.good_steps}} if self.used else {}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restore state() from a checkpoint. A checkpoint from a run without fp16 has no entry and changes nothing."""
        if self.used and PART in state:
            self.factor, self.good_steps = state[PART]["factor"], state[PART]["good_steps"]
