"""Handle output whose reader exits early, as in `jobc backends | head`. An early exit is not an error, but real errors
are still reported.

The command still runs to completion, because its exit code reports the result. Further output is discarded.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import StringIO
from typing import Any, TextIO, cast


class BrokenPipeSafeStream:
    """Text stream that accepts output even after its reader has exited."""

    def __init__(self, stream: TextIO) -> None:
        self.stream, self.has_reader = stream, True

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    def write(self, text: str) -> int:
        try:
            self.stream.write(text)
        except BrokenPipeError:
            self._discard_output()
        return len(text)

    def flush(self) -> None:
        try:
            self.stream.flush()
        except BrokenPipeError:
            self._discard_output()

    def _discard_output(self) -> None:
        """Discard the buffer too, because Python would otherwise report an error at exit."""
        self.has_reader = False
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self.stream.fileno())
        os.close(nowhere)


@contextmanager
def ignore_broken_pipes() -> Iterator[None]:
    """Replace stdout and stderr, even if already closed, with streams that tolerate a missing reader."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (cast(TextIO, BrokenPipeSafeStream(stream or StringIO())) for stream in before)
    try:
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError):  # the command has already reported a full disk, if it could
                stream.flush()
        sys.stdout, sys.stderr = before


def has_reader(stream: TextIO) -> bool:
    """Return whether a stream still had a reader at the last write or flush."""
    return not isinstance(stream, BrokenPipeSafeStream) or stream.has_reader
