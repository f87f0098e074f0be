"""The factor that keeps the gradients of fp16 above zero, and what happens when it makes them overflow."""

from collections.abc import Mapping
from typing import Any

PART = "loss_scale"  # its part of a checkpoint, beside what the optimizer gives
FIRST, SMALLEST, GOOD_STEPS = 2.0**16, 1.0, 2000  # GOOD_STEPS before it is doubled; as of torch.amp.GradScaler


class LossScale:
    """Multiplies the loss before the backward pass. Without fp16 it is 1, and stays 1.

    torch.amp.GradScaler asks each rank for itself whether gradients are finite. Here their norm decides, which is of
    all ranks and shards: so all agree, and no further message is needed. Its state is part of a checkpoint.
    """

    def __init__(self, used: bool) -> None:
        self.used = used
        self.factor = FIRST if used else 1.0
        self.good_steps = 0

    def skips(self, finite: bool) -> bool:
        """After the backward passes of a step: whether the step is left out, so that a smaller factor may do better.

        False for gradients that are finite, and for those that no factor would make finite.
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
        """Its part of a checkpoint; nothing when it is not used."""
        return {PART: {"factor": self.factor, "good_steps": self.good_steps}} if self.used else {}

    def load(self, state: Mapping[str, Any]) -> None:
        """The inverse of state(); a run may have begun with another precision."""
        if self.used and PART in state:
            self.factor, self.good_steps = state[PART]["factor"], state[PART]["good_steps"]
