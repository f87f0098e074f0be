"""Receive signals as data from a pipe in a select loop, so that no signal handler interrupts other code."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Iterable


class SignalQueue:
    """Queue of the caught `signals`. Create only one per process, before any child is started."""

    def __init__(self, signals: Iterable[int]) -> None:
        self._read_end, self._write_end = os.pipe()
        os.set_blocking(self._read_end, False)
        os.set_blocking(self._write_end, False)
        signal.set_wakeup_fd(self._write_end, warn_on_full_buffer=False)
        for number in signals:
            signal.signal(number, lambda *_: None)

    def wait(self, timeout_s: float, *readable: int) -> tuple[list[int], list[int]]:
        """Return the signals in order of arrival, and those descriptors of `readable` that have input."""
        ready, _, _ = select.select([self._read_end, *readable], [], [], max(timeout_s, 0))
        arrived: list[int] = []
        if self._read_end in ready:
            ready.remove(self._read_end)
            arrived += os.read(self._read_end, 4096)
        return arrived, ready
