"""Print the output of all commands, so that no value, file name or file content can control the terminal or forge a
line, and so that the reader of a pipe may exit early.

print_lines  lines; embedded newlines, control characters and direction changes (Unicode bidi) are escaped
print_text   text with several lines, such as a page or YAML; escaped in the same way, except for newlines
print_json   a document; escaped with JSON escapes, so that it is parsed back unchanged
"""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import StringIO
from typing import Any, TextIO, cast

from ..diagnostics.origin import escape_to_one_line


def print_lines(*lines: str, file: TextIO | None = None, flush: bool = False) -> None:
    print("\n".join(escape_to_one_line(line, keep="\t") for line in lines), file=file, flush=flush)


def print_text(text: str) -> None:
    if text:
        print_lines(*text.removesuffix("\n").split("\n"))


def print_json(tree: Any) -> None:
    print_text(to_printable_json(tree))


def print_styled_text(text: str, file: TextIO) -> None:
    """Print diagnostics, which were escaped when they were formatted, because they may have colors."""
    print(text, file=file)


def to_printable_json(tree: Any) -> str:
    """Return JSON with an indent of two spaces. All its characters except the newlines are printable."""
    text = json.dumps(tree, indent=2, ensure_ascii=False)
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)


class BrokenPipeSafeStream:
    """Text stream that accepts output even after its reader has exited.

    The command still runs to completion, because its exit code reports the result. Further output is discarded.
    """

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
    return not isinstance(stream, BrokenPipeSafeStream) or stream.has_reader
