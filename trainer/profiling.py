"""torch.profiler for chosen steps of chosen ranks: profile/rank_NN_steps_10-15.json.gz, which Perfetto shows."""

from pathlib import Path
from typing import Any

import torch

from .config import ProfileConfig


class Profiling:
    """Told before and after each step; does nothing on other ranks and in other steps. Never a reason to die."""

    def __init__(self, config: ProfileConfig, rank: int, run_dir: Path) -> None:
        self.steps = config.steps if config.steps and rank in config.ranks else None
        self._rank, self._folder = rank, run_dir / "profile"
        self._profile: Any = None
        self._step = 0  # the last one that was begun

    def never(self, total_steps: int) -> str:
        """The warning that there will be no such step, or ""."""
        if self.steps is None or self.steps[0] <= total_steps:
            return ""
        return f"warning: no profile: profile.steps begins with {self.steps[0]}, and the last step is {total_steps}"

    def before_step(self, step: int) -> None:
        """Global step `step`, from 1, begins. One that resumes in the midst of the range begins there."""
        self._step = step
        if self.steps and self._profile is None and self.steps[0] <= step <= self.steps[1]:
            self._first = step
            self._profile = torch.profiler.profile(record_shapes=True)  # CPU, and the GPU where there is one
            self._profile.start()

    def after_step(self, step: int) -> str:
        """What there is to tell, or ""."""
        return self.end() if self.steps and step >= self.steps[1] else ""

    def end(self) -> str:
        """Write what was recorded, up to the last step that was begun; the range may go on behind it."""
        if self._profile is None:
            return ""
        step = self._step
        profile, self._profile, self.steps = self._profile, None, None
        path = self._folder / f"rank_{self._rank:02d}_steps_{self._first}-{step}.json.gz"
        try:
            self._folder.mkdir(exist_ok=True)
            profile.stop()
            profile.export_chrome_trace(str(path))
        except (OSError, RuntimeError) as error:
            return f"warning: no profile: {error}"
        return f"profile of steps {self._first} to {step}: profile/{path.name}"
