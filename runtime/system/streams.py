"""Stream logs, and output from an engine's clients such as `kubectl logs --follow`, to stdout.

Lines are printed as they arrive; lines over 64 KiB are printed in pieces.
"""

from __future__ import annotations

import codecs
import contextlib
import os
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING

from .failure import Failure
from .text import printable, printable_log

PIECE = 1 << 16
_STDERR = {"kept": None, "dropped": subprocess.DEVNULL, "merged": subprocess.STDOUT}

if TYPE_CHECKING:
    Change = Callable[[bytes], "bytes | None"]  # changes a line; None drops it


class LogOutput:
    """Standard output for logs. On a terminal, control sequences are removed, except colors and progress bars."""

    def __init__(self, is_foreign: bool = False) -> None:
        """is_foreign: whether another user wrote the logs; they are then filtered on every output"""
        is_raw = not (is_foreign or sys.stdout.isatty())
        self._decoder = None if is_raw else codecs.getincrementaldecoder("utf-8")("replace")

    def write(self, text: bytes) -> None:
        if self._decoder is not None:
            text = printable_log(self._decoder.decode(text)).encode()
        sys.stdout.buffer.write(text)

    def flush(self) -> None:
        sys.stdout.buffer.flush()


def print_client_output(
    words: Sequence[str],
    change: Change | None = None,
    tail: int | None = None,
    environment: Mapping[str, str] | None = None,
    errors: str = "kept",
) -> int:
    """Run a client, print its output, and return its exit code.

    change: function applied to each line.
    tail: how many of the last lines to print, once the client has ended; None prints all as they arrive.
    errors: what to do with stderr: kept, dropped or merged.
    Raises Failure if the client cannot be run.
    """
    with terminate_at_exit(start_client(words, environment, _STDERR[errors])) as process:
        assert process.stdout is not None
        print_lines(process.stdout, change, tail)
        return process.wait()


def run_attached_to_terminal(words: Sequence[str]) -> int:
    """Run a client with this program's input and output. Return its exit code, or 128 + N if signal N killed it.

    Raises Failure if it cannot be run.
    """
    sys.stdout.flush()
    try:
        process = subprocess.Popen(list(words))
    except OSError as error:
        raise Failure(f"cannot run {words[0]}: {error.strerror}") from None
    with terminate_at_exit(process):
        code = process.wait()
    return code if code >= 0 else 128 - code


def client_output_lines(
    words: Sequence[str], environment: Mapping[str, str] | None = None, inherited: Mapping[str, str] = os.environ
) -> Iterator[str]:
    """Run a client and yield the lines that it prints, including stderr, without control characters.

    environment: variables added to the inherited ones.
    Raises Failure if the client cannot be run.
    """
    with terminate_at_exit(start_client(words, environment, subprocess.STDOUT, inherited=inherited)) as process:
        assert process.stdout is not None
        for line in process.stdout:
            yield printable(line.decode(errors="replace")).rstrip("\n")


@contextlib.contextmanager
def terminate_at_exit(process: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """Terminate the process with SIGTERM if the `with` block ends first."""
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait()


def print_lines(file: IO[bytes], change: Change | None = None, tail: int | None = None) -> None:
    """Print the lines of a file or pipe as they arrive. With `tail`, print only that many lines, at the end."""
    out = LogOutput()
    if tail is not None:
        for piece in deque(transformed_lines(file, change), maxlen=tail):
            out.write(piece)
    else:
        for piece in transformed_lines(file, change) if change else iter(lambda: os.read(file.fileno(), PIECE), b""):
            out.write(piece)
            out.flush()
    out.flush()


def transformed_lines(file: IO[bytes], change: Change | None) -> Iterator[bytes]:
    """Yield the lines that `change` returns. Only a line's first 64 KiB are changed."""
    is_inside = is_kept = False
    while True:
        piece = file.readline(PIECE)
        if not piece:
            return
        if not is_inside:
            changed = change(piece) if change else piece
            is_kept = changed is not None
            if changed is not None:
                yield changed
        elif is_kept:
            yield piece
        is_inside = not piece.endswith(b"\n")


def start_client(
    words: Sequence[str],
    environment: Mapping[str, str] | None = None,
    errors: int | None = None,
    folder: Path | None = None,
    inherited: Mapping[str, str] = os.environ,
) -> subprocess.Popen[bytes]:
    """Start a client without input, whose stdout can be read. Raises Failure if it cannot be run."""
    environ = {**inherited, **(environment or {})}
    try:
        return subprocess.Popen(
            list(words), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, env=environ, cwd=folder
        )
    except OSError as error:
        raise Failure(f"cannot run {words[0]}: {error.strerror}") from None
