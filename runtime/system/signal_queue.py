"""Receive signals as data from a pipe in a select loop, so that no signal handler interrupts other code."""

from __future__ import annotations

import os
import select
import signal
import threading
from collections.abc import Iterable


class SignalQueue:
    """Queue of the caught `signals`. Create only one per process, before any child is started."""

    def __init__(self, signals: Iterable[int]) -> None:
        self.senders: dict[int, int] = {}  # signal -> PID of its last sender, or 0 if outside this PID namespace
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

    def block_signals(self, signals: Iterable[int]) -> None:
        """Block `signals` until receive_in_thread() receives them."""
        signal.pthread_sigmask(signal.SIG_BLOCK, signals)

    def receive_in_thread(self, signals: Iterable[int]) -> None:
        """Receive the held `signals` in a thread, so that `senders` records who sent them. A handler could not."""
        threading.Thread(target=self._receive_signals, args=(signals,), daemon=True).start()

    def _receive_signals(self, signals: Iterable[int]) -> None:
        while True:
            received = signal.sigwaitinfo(signals)
            self.senders[received.si_signo] = received.si_pid
            os.write(self._write_end, bytes([received.si_signo]))
