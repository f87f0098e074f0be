"""The log of a node, logs/node_NN.log: one file for all attempts, and when its lines were written.

logs.sh merges the logs of all nodes by these times. They stand beside the log, whose lines stay as they were said.
"""

from __future__ import annotations

import contextlib
import os
import time

from .run_folder import RunFolder


class NodeLog:
    """Appends. timed: keep logs/.node_NN.times, a line `SECONDS OFFSET` for each second with output."""

    def __init__(self, run: RunFolder, node: int, timed: bool) -> None:
        path = run.node_log(node)
        path.parent.mkdir(parents=True, exist_ok=True)
        self._noted_s = 0
        self._times = -1
        if timed:
            self._times = os.open(path.with_name(f".{path.stem}.times"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
            self._note(path.stat().st_size if path.exists() else 0)
        self._log = run.open_log(path, f"node {node}")

    def write(self, text: bytes) -> None:
        with contextlib.suppress(OSError):  # a full disk must not end the training
            self._note(os.fstat(self._log).st_size)
            os.write(self._log, text)

    def _note(self, offset: int) -> None:
        """What follows at `offset` is said now."""
        now_s = int(time.time())
        if self._times >= 0 and now_s != self._noted_s:
            self._noted_s = now_s
            os.write(self._times, b"%d %d\n" % (now_s, offset))

    def close(self) -> None:
        for descriptor in (self._log, self._times):
            if descriptor >= 0:
                os.close(descriptor)
