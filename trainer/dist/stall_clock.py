"""Measure how long a rank has made no progress, polled by a thread. Standard library only.

No message between ranks, with its timeout, ends a rank that waits for no other: it is alone, or all of them hang, each
by itself. Time in which the process was stopped, or the thread had no turn, does not count: a suspended job hangs in
nothing.
"""

from .phases import Phases

MOST_TICKS = 3  # what counts at most between two looks
# Where nothing ends it. save: what ranks send each other in one has a timeout; to gather and copy much takes its time
ENDLESS = ("start", "save", "write", "read", "failed")


class NoProgress:
    """Detector for a single rank.

    spent_s  in this phase, as far as it was seen, since there was a sign that it gets on
    """

    def __init__(self, phases: Phases) -> None:
        self._phases, self._moved, self._looked = phases, phases.moved, phases.moved
        self.spent_s = 0.0

    def look(self, now: float, tick_s: float) -> float:
        """spent_s. now: of time.perf_counter; tick_s: between two looks, as it was meant"""
        moved = self._phases.moved
        self.spent_s = self.spent_s + min(now - self._looked, MOST_TICKS * tick_s) if moved == self._moved else 0.0
        self._moved, self._looked = moved, now
        return self.spent_s

    def has_moved(self) -> bool:
        """Since the last look."""
        return self._phases.moved != self._moved

    def is_over(self, timeout_s: float) -> bool:
        """Return whether the time was over at the last poll."""
        return self.spent_s > timeout_s and self._phases.phase not in ENDLESS and not self.has_moved()
