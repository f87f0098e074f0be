"""Measure how long a rank has made no progress. A thread polls this clock. Standard library only.

The message timeout does not cover a rank that is not waiting for another, because it is the only rank or because every
rank hangs separately. Time during which the process was suspended, or the thread was not running, does not count,
because a suspended job is not hung.
"""

from .phases import Phases

MOST_TICKS = 3  # maximum time that counts between two polls, in ticks
# Phases without a time limit. `save` is one of them because its messages have a timeout, and because gathering and
# copying a large state takes a long time.
ENDLESS = ("start", "save", "write", "read", "failed")


class StallClock:
    """One rank's stall clock. spent_s: observed time since the last sign of progress."""

    def __init__(self, phases: Phases) -> None:
        self._phases, self._moved, self._looked = phases, phases.moved, phases.moved
        self.spent_s = 0.0

    def update(self, now: float, tick_s: float) -> float:
        """Update and return spent_s. now: result of time.perf_counter(); tick_s: intended seconds between polls"""
        moved = self._phases.moved
        self.spent_s = self.spent_s + min(now - self._looked, MOST_TICKS * tick_s) if moved == self._moved else 0.0
        self._moved, self._looked = moved, now
        return self.spent_s

    def has_moved(self) -> bool:
        return self._phases.moved != self._moved

    def is_over(self, timeout_s: float) -> bool:
        """Return whether the rank had stalled for longer than timeout_s at the last poll."""
        return self.spent_s > timeout_s and self._phases.phase not in ENDLESS and not self.has_moved()
