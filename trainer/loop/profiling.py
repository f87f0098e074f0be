"""Run torch.profiler for profile.steps on profile.ranks. Writes profile/rank_NN_steps_10-15.json.gz for Perfetto."""

from pathlib import Path
from typing import Any

import torch
from torch._C._autograd import _profiler_enabled

from ..config.schema import ProfileConfig

TROUBLE = (OSError, RuntimeError, AssertionError)  # raised by torch.profiler
NO_PROFILE = "warning: no profile"


class StepProfiler:
    """Hooks before and after each step, which do nothing on ranks and in steps that are not profiled. They never raise.

    A process has only one profiler, and the recipe may use it too. torch 2.13 allows a second one to start, but
    stopping either of them stops both. Exporting the other one then crashes with a segmentation fault.
    """

    def __init__(self, config: ProfileConfig, rank: int, run_dir: Path) -> None:
        self.steps = config.steps if rank in config.ranks else None
        self._is_of_nobody = bool(config.steps) and not config.ranks and rank == 0
        self._rank, self._folder = rank, run_dir / "profile"
        self._profile: Any = None
        self._step = 0  # last step that was started

    def missing_profile_warning(self, done: int, total_steps: int) -> str:
        """Return a warning if neither an earlier attempt nor this one writes a profile, else "".

        done: number of steps before this attempt.
        """
        if self._is_of_nobody:
            return f"{NO_PROFILE}: profile.ranks is empty"
        if self.steps is None or any(self._folder.glob(f"rank_{self._rank:02d}_*")):
            return ""
        if self.steps[0] > total_steps:
            return f"{NO_PROFILE}: profile.steps starts at {self.steps[0]}, but the last step is {total_steps}"
        if self.steps[1] <= done < total_steps:
            return f"{NO_PROFILE}: profile.steps ends at {self.steps[1]}, but this attempt starts at step {done + 1}"
        return ""

    def before_step(self, step: int) -> str:
        """Start the profiler if step `step`, counted from 1, is in the range. Return a message to print, or ""."""
        self._step = step
        if not self.steps or self._profile is not None or not self.steps[0] <= step <= self.steps[1]:
            return ""
        self._first = step
        try:
            if _profiler_enabled():
                raise RuntimeError("another profiler is running in this process")
            profile = torch.profiler.profile(record_shapes=True)  # CPU, and the GPU if there is one
            profile.start()
            self._profile = profile
        except TROUBLE as error:
            self.steps = None
            return f"{NO_PROFILE}: {error}"
        return ""

    def after_step(self, step: int) -> str:
        """Write the profile after the last step of the range. Return a message to print, or ""."""
        return self.write_profile() if self.steps and step >= self.steps[1] else ""

    def write_profile(self) -> str:
        """Write the profile up to the last step that was started, even if the range is not complete."""
        if self._profile is None:
            return ""
        profile, self._profile, self.steps = self._profile, None, None
        path = self._folder / f"rank_{self._rank:02d}_steps_{self._first}-{self._step}.json.gz"
        try:
            if not _profiler_enabled():
                raise RuntimeError("another profiler in this process stopped this one")
            self._folder.mkdir(exist_ok=True)
            profile.stop()
            profile.export_chrome_trace(str(path))
        except TROUBLE as error:
            return f"{NO_PROFILE}: {error}"
        return f"profile of steps {self._first} to {self._step}: profile/{path.name}"
