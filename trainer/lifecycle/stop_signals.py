"""Handle stop requests: a signal only sets a flag, because it may arrive during a collective.

During the build, which may compile for minutes, a signal stops the rank immediately. Standard library only, so that the
handlers are installed before torch is imported.
"""

import os
import signal
import time
from collections.abc import Callable
from types import FrameType

from ...runtime import exit_codes

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2)
REPEAT_S = 5.0  # signals within this time count as one request because launchers send several


class StopSignals:
    """Signal handlers for stop requests. A second request, later than REPEAT_S, kills the process with that signal.

    received:  name of the first signal, or None.
    ends_with: if set, a request calls this function and exits immediately, because nothing can be saved yet and no code
               polls the flag.
    """

    def __init__(self) -> None:
        self.received: str | None = None
        self.ends_with: Callable[[], None] | None = None
        self._first_time = 0.0
        for number in STOP_SIGNALS:
            signal.signal(number, self._handle_signal)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)  # see runtime/ranks/rank.py

    def is_stop_requested(self) -> bool:
        return self.received is not None

    def _handle_signal(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if self.received is None:
            self.received = signal.Signals(number).name
            self._first_time = now
            if self.ends_with is not None:
                self.ends_with()
                os.write(2, f"stopped by {self.received} before the first step\n".encode())
                os._exit(exit_codes.PREEMPTED)
        elif now - self._first_time > REPEAT_S:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
