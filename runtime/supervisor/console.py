"""Print to a terminal, pipe or file without ever blocking the job.

A terminal paused with Ctrl-S, or a `less` that has stopped reading, would otherwise stop the training once the
pipe is full. Output that does not fit is dropped with a note; the log file has all the output.
"""

from __future__ import annotations

import os
import select
import time

MOST_WAITING_BYTES = 4 * 1024 * 1024
PIECE_BYTES = 4096  # PIPE_BUF: a pipe reported as writable takes this much without waiting (pipe(7))
FLUSH_S = 5.0  # how long flush() waits for a reader that is not reading


class Console:
    """Buffered output to one file descriptor; write() never blocks."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._waiting = bytearray()
        self._dropped = False
        self._open = True

    @property
    def has_pending_output(self) -> bool:
        return bool(self._waiting)

    def write(self, text: bytes) -> None:
        self._waiting += text
        self._push()
        if len(self._waiting) > MOST_WAITING_BYTES:
            del self._waiting[MOST_WAITING_BYTES:]
            self._dropped = True

    def flush(self) -> None:
        """Write the pending output, until the reader has read nothing for FLUSH_S."""
        if self._dropped:
            self._waiting += b"\njobc: output was dropped here, the log has all of it\n"
        deadline = time.monotonic() + FLUSH_S
        while self._waiting and time.monotonic() < deadline:
            if self._push(0.1):
                deadline = time.monotonic() + FLUSH_S

    def _push(self, timeout_s: float = 0) -> bool:
        """Write as much as the reader accepts within the timeout; return whether it accepted anything."""
        has_written = False
        while self._waiting and self._open and select.select([], [self._descriptor], [], timeout_s)[1]:
            try:
                del self._waiting[: os.write(self._descriptor, self._waiting[:PIECE_BYTES])]
                has_written = True
            except OSError:  # the terminal or the reader is gone
                self._open = False
        if not self._open:
            self._waiting.clear()
        return has_written
