"""Weights & Biases: project = the job, run = the run. Needs `wandb` (seen with 0.31), and WANDB_API_KEY or a login.

WANDB_MODE=offline writes to wandb/ of the run folder; `wandb sync` brings it up later.
"""

from collections.abc import Mapping
from typing import Any

from . import TrackedRun


class WandbRun:
    """One run. run: wandb.Run"""

    def __init__(self, run: Any) -> None:
        self._run = run

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """W&B takes steps in ascending order: of those done again it keeps the first."""
        self._run.log(dict(values), step=step)

    def close(self, done: bool) -> None:
        """Exit code 1 is W&B's word for a run that is not complete."""
        self._run.finish(exit_code=0 if done else 1)


def open_run(run: TrackedRun) -> WandbRun:
    """See trackers.tracker_factory."""
    import wandb

    return WandbRun(
        wandb.init(id=run.id, name=run.id, project=run.job, dir=run.folder, config=dict(run.config), resume="allow")
    )
