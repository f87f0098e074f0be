"""Print the output of several clients, such as `kubectl logs --follow`, at the same time. Packed into jobctl."""

from __future__ import annotations

import contextlib
import subprocess
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ....runtime.system.streams import LogOutput, start_client, transformed_lines

if TYPE_CHECKING:
    from ....runtime.system.streams import Change


class LineMerger:
    """Prints several clients' output simultaneously, line by line. A context manager that terminates them on exit."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._clients: list[tuple[subprocess.Popen[bytes], threading.Thread]] = []

    def __enter__(self) -> LineMerger:
        return self

    def __exit__(self, *_: object) -> None:
        for process, _thread in self._clients:
            if process.poll() is None:
                process.terminate()

    def start_client(self, words: Sequence[str], change: Change | None = None) -> None:
        process = start_client(words)
        thread = threading.Thread(target=self._print_lines, args=(process, change), daemon=True)
        self._clients.append((process, thread))
        thread.start()

    def wait_for_clients(self) -> None:
        for process, thread in self._clients:
            thread.join()
            process.wait()

    def _print_lines(self, process: subprocess.Popen[bytes], change: Change | None) -> None:
        assert process.stdout is not None
        out = LogOutput()
        with contextlib.suppress(OSError, ValueError):  # nobody is reading stdout, or it was closed on exit
            for piece in transformed_lines(process.stdout, change):
                with self._lock:
                    out.write(piece if piece.endswith(b"\n") else piece + b"\n")
                    out.flush()
