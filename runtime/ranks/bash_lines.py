"""Run lines of bash from the keys `before`, `per_node` and `after`, up to the first command that fails."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping

from ..system import processes
from ..system.text import printable

MOST_SHOWN = 200  # maximum length of a command in a message
# a single line, so that the key's lines are numbered from 2 in bash's messages
_TRAP = "trap 'jobc_status=$?; printf %s \"${{BASH_COMMAND:0:{most}}}\" >&{descriptor}; exit $jobc_status' ERR\n"


class BashLines:
    """A bash process that runs the lines of a key. Processes that the lines leave in the background keep running.

    key: `before`, `per_node` or `after`.
    output: file descriptor for stdout and stderr, or None to use those of this process.
    Raises OSError if bash cannot be started.
    """

    def __init__(
        self, key: str, lines: str, output: int | None = None, environ: Mapping[str, str] | None = None
    ) -> None:
        self.key = key
        self._failed, write_end = os.pipe()
        os.set_inheritable(write_end, True)
        script = _TRAP.format(most=MOST_SHOWN, descriptor=write_end) + lines + "\n:"  # in case the last line is a test
        try:
            # stderr is merged into stdout because a launcher's stderr is not on the console
            output = 1 if output is None else output
            self.pid = processes.start_in_own_session(["bash", "-c", script], output, environ=environ)
        finally:
            os.close(write_end)

    def terminate(self) -> None:
        """Send SIGTERM to bash and to the programs that it runs."""
        os.killpg(self.pid, signal.SIGTERM)  # bash has its own session and has not been reaped yet

    def failure_reason(self, status: int) -> str:
        """Return why the lines failed, or "". Called once, after bash has ended.

        status: exit code, or -N if signal N killed bash.
        """
        os.set_blocking(self._failed, False)
        try:
            command = os.read(self._failed, 65536).decode(errors="replace")
        except BlockingIOError:  # a background process keeps the pipe open
            command = ""
        os.close(self._failed)
        if status == 0:
            return ""
        if status < 0:
            return f"{self.key} was killed by {signal.Signals(-status).name}"
        if command:
            return f"{self.key} failed (exit {status}): {printable(' '.join(command.split()))}"
        cause = "a line is not valid bash, or calls exit 2" if status == 2 else "a line calls exit"
        return f"{self.key} exited with {status}: {cause}"
