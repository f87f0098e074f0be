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

    def before_step(self, step: int) -> None:
        """Global step `step`, from 1, begins. One that resumes in the midst of the range begins there."""
        if self.steps and self._profile is None and self.steps[0] <= step <= self.steps[1]:
            self._first = step
            self._profile = torch.profiler.profile(record_shapes=True)  # CPU, and the GPU where there is one
            self._profile.start()

    def after_step(self, step: int) -> str:
        """What there is to tell, or ""."""
        if self._profile is None or self.steps is None or step < self.steps[1]:
            return ""
        return self.end(step)

    def end(self, step: int) -> str:
        """Write what was recorded, up to step `step`."""
        if self._profile is None:
            return ""
        profile, self._profile, self.steps = self._profile, None, None
        path = self._folder / f"rank_{self._rank:02d}_steps_{self._first}-{step}.json.gz"
        try:
            self._folder.mkdir(exist_ok=True)
            profile.stop()
            profile.export_chrome_trace(str(path))
        except (OSError, RuntimeError) as error:
            return f"warning: no profile: {error}"
        return f"profile of steps {self._first} to {step}: profile/{path.name}"
