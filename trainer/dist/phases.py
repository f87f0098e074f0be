"""Track this rank's current phase and its duration. Standard library only.

The training loop records each change of phase, which takes less than a microsecond. The hang watchdog and the metrics
read the phase.
"""

import time
from typing import Literal

# A build consists of `data`, `model`, `restore`, and the warm-up's `forward` and `backward`. A step consists of `data`,
# `forward` to `update`, and `metrics`.
# `exchange`: messages between ranks in a build, validation or save; in a step, only with some kinds of parallelism.
# `write`, `read`: disk I/O of one rank, without a time limit. The other ranks wait in `save` or `exchange`, and receive
# a message from it every second.
# `failed`: the rank has printed its error and is writing its remaining data.
Phase = Literal[
    "start", "data", "model", "restore", "forward", "exchange", "backward", "update", "validation", "save", "write",
    "read", "metrics", "failed",
]  # fmt: skip


class Phases:
    """One rank's phases. Only the training thread changes them. Times are in seconds, as in time.perf_counter().

    place:      (step, number of phase changes in it). Ranks at the same point have the same place, and a rank with a
                smaller place is behind. Step 0 is everything before the first step of this attempt.
    since:      when the phase began, or when restart_clock() was last called.
    part_since: when the step, validation, save or part of the build began.
    moved:      time of the last sign of progress, which may be the beginning of the phase.
    known:      phases that occurred in earlier steps and parts. A phase that runs for the first time may compile.
    """

    def __init__(self) -> None:
        self.phase: Phase = "start"
        self.place = (0, 0)
        self.since = self.part_since = self.moved = time.perf_counter()
        self.known: set[Phase] = set()
        self._spent: dict[Phase, float] = {}
        self._seen: set[Phase] = set()  # phases since the step or part began

    def begin_step(self, step: int) -> None:
        self._begin("data")
        self.place = (step, 0)

    def enter(self, phase: Phase) -> None:
        self.restart_clock()
        self._seen.add(self.phase)
        self.phase = phase
        self.place = (self.place[0], self.place[1] + 1)

    def begin_outside_steps(self, phase: Phase) -> None:
        """Begin a part outside the steps: a validation, a save, or part of the build."""
        self._begin(phase)

    def _begin(self, phase: Phase) -> None:
        self.enter(phase)
        self.known |= self._seen
        self._seen.clear()
        self.part_since = self.since

    def restart_clock(self) -> None:
        """Record progress and restart the clock of this phase."""
        now = time.perf_counter()
        self._spent[self.phase] = self._spent.get(self.phase, 0.0) + now - self.since
        self.since = self.moved = now

    def record_progress(self) -> None:
        """Record progress without restarting the clock of this phase."""
        self.moved = time.perf_counter()

    def take_times(self) -> dict[Phase, float]:
        """Return the seconds spent in each phase since the last call. Only phases that have ended are included."""
        spent, self._spent = self._spent, {}
        return spent
