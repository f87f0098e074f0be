"""Requests to stop or to save: stop signals, and the files control/STOP and control/SAVE in the run folder.

A signal only sets a flag because it may arrive during a collective. During the build, which may compile for minutes, it
stops the rank immediately. Standard library only, so that the handlers are installed before torch is imported.
"""

import functools
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
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


@functools.cache  # called in every step
def stop_file(run_dir: Path) -> Path:
    """Return the path of the stop file. If it exists, the run saves and exits; the job is not requeued."""
    return run_dir / "control" / "STOP"


class SaveRequest:
    """The file control/SAVE, which rank 0 reads. If it exists, the run saves and continues.

    The trainer removes the file even if the save fails. A file that cannot be removed causes only one save, unless it
    is changed or replaced.
    """

    def __init__(self, run_dir: Path) -> None:
        self._file = run_dir / "control" / "SAVE"
        self._seen: tuple[int, int] | None = None  # inode and change time (ns)
        self._answered: tuple[int, int] | None = None

    def is_made(self) -> bool:
        try:
            stat = self._file.stat()
            self._seen = stat.st_ino, stat.st_ctime_ns
        except OSError:
            self._seen = None
        return self._seen not in (None, self._answered)

    def remove_request(self) -> None:
        """Remove the request that is_made() last saw."""
        if self._seen in (None, self._answered):
            return
        self._answered = self._seen
        try:
            self._file.unlink(missing_ok=True)
        except OSError as error:
            hint = "remove the file before you request another save"
            print(f"warning: {self._file} was handled but cannot be removed: {error.strerror}; {hint}", flush=True)
