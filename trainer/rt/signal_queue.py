"""Signals as data: they arrive in a pipe that a select loop reads, and no code interrupts other code."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Iterable


class SignalQueue:
    """Catches `signals` from now on. Make one per process, before anything is started."""

    def __init__(self, signals: Iterable[int]) -> None:
        self._read_end, self._write_end = os.pipe()
        os.set_blocking(self._read_end, False)
        os.set_blocking(self._write_end, False)
        signal.set_wakeup_fd(self._write_end, warn_on_full_buffer=False)
        for number in signals:
            signal.signal(number, lambda *_: None)

    def wait(self, timeout_s: float, *readable: int) -> tuple[list[int], list[int]]:
        """(signals as they arrived, those of `readable` that have input); both empty after the timeout."""
        ready, _, _ = select.select([self._read_end, *readable], [], [], max(timeout_s, 0))
        arrived: list[int] = []
        if self._read_end in ready:
            ready.remove(self._read_end)
            arrived += os.read(self._read_end, 4096)
        return arrived, ready
