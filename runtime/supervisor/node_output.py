"""Write the output of a node's launcher and supervisor to its log and the console."""

from __future__ import annotations

import contextlib
import os

from ..run_folder.node_log import NodeLog
from .console import Console

RECENT_BYTES = 32 * 1024  # what is still on the screen, or a little above it


class NodeOutput:
    def __init__(self, log: NodeLog, console: Console) -> None:
        self._log, self._console = log, console
        self._recent = b""

    @property
    def has_pending_output(self) -> bool:
        """Return whether the console has not accepted all output yet."""
        return self._console.has_pending_output

    def say(self, line: str) -> None:
        """Print one of jobc's lines, on a new line even if the previous output does not end with a newline."""
        start = "" if self._recent.endswith(b"\n") or not self._recent else "\n"
        self.print(f"{start}jobc: {line}\n".encode())

    def print(self, text: bytes) -> None:
        reason = self._log.write(text)
        self._console.write(text)
        if reason:
            lost = "output is lost until the log can be written"
            self._console.write(f"jobc: cannot write logs/{self._log.name}: {reason}; {lost}\n".encode())
        self._recent = (self._recent + text)[-RECENT_BYTES:]

    def has_just_shown(self, text: bytes) -> bool:
        return text in self._recent

    def copy(self, output: int) -> bool:
        """Copy one chunk of the launcher's output; return False at its end."""
        piece = os.read(output, 65536)
        self.print(piece)
        return bool(piece)

    def drain(self, output: int) -> None:
        """Copy the rest of the output."""
        os.set_blocking(output, False)
        with contextlib.suppress(BlockingIOError):
            while self.copy(output):
                pass

    def go_on(self) -> None:
        """Write the output that the console did not accept earlier."""
        self._console.write(b"")

    def flush(self) -> None:
        self._console.flush()

    def close(self) -> None:
        self._log.close()
