"""Write a node's log, logs/node_NN.log: one file for all attempts, and the times when its lines were written.

jobctl logs merges all nodes' logs by these times, which are in a separate file so that log lines stay unchanged.
"""

from __future__ import annotations

import contextlib
import os
import time

from .run_folder import RunFolder, open_for_append


class LossyLog:
    """Appends to a log. Output that a full disk cannot hold is dropped, and a later line reports how much was lost."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._dropped_bytes, self._reason = 0, ""

    def write(self, text: bytes) -> str:
        """Append the text. If this is the first write that fails, return the reason; otherwise, return ""."""
        was_dropping = self._dropped_bytes > 0
        try:
            if was_dropping:
                note = f"\njobc: dropped {self._dropped_bytes} bytes of output here: {self._reason}\n"
                write_all_bytes(self.descriptor, note.encode())
                self._dropped_bytes = 0
            write_all_bytes(self.descriptor, text)
        except OSError as error:
            self._dropped_bytes += len(text)
            self._reason = str(error.strerror)
            return "" if was_dropping else self._reason
        return ""


def write_all_bytes(descriptor: int, piece: bytes) -> None:
    while piece:
        piece = piece[os.write(descriptor, piece) :]


class NodeLog:
    """A node's log. timed: also write logs/.node_NN.times, with a line `SECONDS OFFSET` for each second with output."""

    def __init__(self, run: RunFolder, node: int, timed: bool) -> None:
        path = run.node_log(node)
        path.parent.mkdir(parents=True, exist_ok=True)
        self._noted_s = 0
        self._times = -1
        if timed:
            self._times = open_for_append(path.with_name(f".{path.stem}.times"))
            self._record_time(path.stat().st_size if path.exists() else 0)
        self.name = path.name
        self._log = LossyLog(run.open_log(path, f"node {node}"))

    def write(self, text: bytes) -> str:
        """Append the text. Return why output is dropped, once each time the disk becomes full; otherwise, return ""."""
        with contextlib.suppress(OSError):  # a full disk must not stop the training
            self._record_time(os.fstat(self._log.descriptor).st_size)
        return self._log.write(text)

    def _record_time(self, offset: int) -> None:
        """Record that the output at byte `offset` was written now."""
        now_s = int(time.time())
        if self._times >= 0 and now_s != self._noted_s:
            self._noted_s = now_s
            os.write(self._times, b"%d %d\n" % (now_s, offset))

    def close(self) -> None:
        for descriptor in (self._log.descriptor, self._times):
            if descriptor >= 0:
                os.close(descriptor)
