"""Track the current phase of this rank and its duration. Standard library only.

The training says so at each turn, for less than a microsecond; the watch (watch.py) and the metrics read it.
"""

import time
from typing import Literal

# data, model, restore: of the build, whose passes are a forward and a backward as well. forward to update: of a step.
# exchange: what ranks tell each other while they build, validate and save; with some ways in a step as well.
# write, read: of one rank, for whose disk all wait, however long; the others, in save or exchange, hear from it every
# second.
# failed: of a rank that has told its error, and still writes what it has.
Phase = Literal[
    "start", "data", "model", "restore", "forward", "exchange", "backward", "update", "validation", "save", "write",
    "read", "metrics", "failed",
]  # fmt: skip


class Phases:
    """Phases of one rank, written only by the training thread.

    place       (step, number of turns in it): equal for ranks that are at the same point; the least is behind.
                Step 0 is all that comes before the first one of this attempt
    since       when the phase began or was last seen to go on, seconds of time.perf_counter
    part_since  when the step began, or its validation, or its save, or a part of the build
    moved       when there was a sign last that the phase gets on; its beginning is one
    known       phases of earlier steps and parts: what is done for the first time may compile
    """

    def __init__(self) -> None:
        self.phase: Phase = "start"
        self.place = (0, 0)
        self.since = self.part_since = self.moved = time.perf_counter()
        self.known: set[Phase] = set()
        self._spent: dict[Phase, float] = {}
        self._seen: set[Phase] = set()  # since the step or part began

    def begin_step(self, step: int) -> None:
        """Global step `step`, from 1, begins."""
        self.begin_part("data")
        self.place = (step, 0)

    def enter(self, phase: Phase) -> None:
        """Enter a phase."""
        now = time.perf_counter()
        self._spent[self.phase] = self._spent.get(self.phase, 0.0) + now - self.since
        self._seen.add(self.phase)
        self.phase, self.since = phase, now
        self.moved = now
        self.place = (self.place[0], self.place[1] + 1)

    def begin_part(self, phase: Phase) -> None:
        """Beside the steps themselves: a validation, a save, or a part of the build."""
        self.enter(phase)
        self.known |= self._seen
        self._seen.clear()
        self.part_since = self.since

    def go_on(self) -> None:
        """Still in this phase, and there was a sign that it gets on: it lasts from now on."""
        now = time.perf_counter()
        self._spent[self.phase] = self._spent.get(self.phase, 0.0) + now - self.since
        self.since = self.moved = now

    def moves(self) -> None:
        """Enter a part of the phase, which continues."""
        self.moved = time.perf_counter()

    def take(self) -> dict[Phase, float]:
        """Seconds spent in each phase that has ended since the last call."""
        spent, self._spent = self._spent, {}
        return spent
