"""Section `checkpoint` of train.json. Separate from schema.py because script.py also saves checkpoints, without a
train.json.
"""

from ...runtime.system.frozen_dataclass import dataclass


@dataclass(frozen=True)
class CheckpointConfig:
    """Checkpoint schedule; a checkpoint is always saved after the last step and on a stop."""

    every_steps: int | None
    every_epochs: int | None
    keep: int
    keep_every_steps: int | None
    background: bool
    max_failures: int

    def steps_between_saves(self, steps_per_epoch: int | None) -> int | None:
        """Return the optimizer steps between saves, or None if the number depends on steps_per_epoch, which is None."""
        if self.every_steps is not None:
            return self.every_steps
        return None if self.every_epochs is None or steps_per_epoch is None else self.every_epochs * steps_per_epoch
