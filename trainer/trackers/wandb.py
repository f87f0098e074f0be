"""Log to Weights & Biases. A job is a W&B project, and a run is a W&B run. Needs `wandb` (tested with 0.31), and
WANDB_API_KEY or a login.

WANDB_MODE=offline writes to wandb/ in the run folder; `wandb sync` uploads it later.
"""

from collections.abc import Mapping
from typing import Any

from . import TrackedRun


class WandbRun:
    """One run. run: a wandb.Run"""

    def __init__(self, run: Any) -> None:
        self._run = run

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Log all values. W&B requires ascending steps. Of a step that is logged again, it keeps the first values."""
        self._run.log(dict(values), step=step)

    def close(self, done: bool) -> None:
        """Finish the run. Exit code 1 marks it as incomplete in W&B."""
        self._run.finish(exit_code=0 if done else 1)


def open_run(run: TrackedRun) -> WandbRun:
    import wandb

    return WandbRun(
        wandb.init(id=run.id, name=run.id, project=run.job, dir=run.folder, config=dict(run.config), resume="allow")
    )
