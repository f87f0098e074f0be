"""Exit codes, and how all commands print diagnostics and progress."""

import errno
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence

from ...runtime.system.untrusted_files import Unreadable
from ..diagnostics.diagnostic import Diagnostic, format_for_terminal
from .arguments import Arguments
from .terminal import print_lines, print_styled_text, print_text

OK, DIAGNOSTICS, OUR_BUG, INTERRUPTED = 0, 1, 2, 130
NO_READER = 141  # exit code of run and watch if that of the run is unknown: 128 + SIGPIPE
TROUBLE = 2  # exit code of diff after an error, because 1 means that the two sides differ

_NAMELESS = {  # hints for operating system errors without a file name
    errno.ENOENT: "check that the current directory still exists",
    errno.ENOSPC: "free space on the output's file system, or redirect the output",
}


SystemFailure = (OSError, Unreadable, MemoryError, RecursionError)


def system_error_diagnostic(error: OSError | Unreadable | MemoryError | RecursionError) -> Diagnostic:
    """Return JC1001 for a SystemFailure: an operating system error, an unusable file or too large input."""
    if isinstance(error, (MemoryError, RecursionError)):
        is_deep = isinstance(error, RecursionError)
        because = "the input's values are nested too deeply" if is_deep else "this process cannot allocate more memory"
        hint = "remove files and overrides one by one until the command works; the last one you removed is the cause"
        return Diagnostic("JC1001", "the input is too large", because, hint)
    if isinstance(error, Unreadable):
        hint = "remove it, or replace it with a regular file" if not error.missing else "check the name"
        return Diagnostic("JC1001", f"cannot use {error.path}", f"it {error.reason}", hint)
    title, hint = f"cannot use {error.filename}", "check its permissions"
    if not error.filename:
        title = "the operating system reported an error"
        hint = _NAMELESS.get(error.errno or 0, "fix the cause and try again")
    return Diagnostic("JC1001", title, error.strerror or str(error), hint)


def report_diagnostics(diagnostics: Sequence[Diagnostic], arguments: Arguments | None = None) -> None:
    """Print diagnostics to stderr, in color on a terminal unless NO_COLOR is set (no-color.org).

    With a machine-readable --format, print one document to stdout, even if there are no diagnostics.
    """
    if arguments is not None and arguments.prints_machine_format:
        from .diagnostic_formats import FORMATS

        print_text(FORMATS[arguments.format or ""](diagnostics, dict(arguments.config_dirs)))
        return
    if not diagnostics:
        return
    from ..plugins.registry import code_name  # imports every backend's base classes, which few commands need

    colour = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
    if shown := format_for_terminal(diagnostics, colour, _source_texts(diagnostics), code_name):
        print_styled_text(shown, sys.stderr)


def progress_printer(every_s: float = 5) -> Callable[[int, int], None]:
    """Return a progress callback that prints a line to stderr at most every `every_s` seconds."""
    said_at = time.monotonic()

    def print_count(done: int, count: int) -> None:
        nonlocal said_at
        if time.monotonic() - said_at >= every_s:
            said_at = time.monotonic()
            print_lines(f"jobc: {done:,} of {count:,} points", file=sys.stderr, flush=True)

    return print_count


def _source_texts(diagnostics: Sequence[Diagnostic]) -> Mapping[str, str]:
    """Return the text of each file that the compile read, by `ROOT:PATH`, or {} if no diagnostic points to a line."""
    if not any(d.origin and d.origin.line for d in diagnostics):
        return {}
    from ..frontend.yaml_source import read_files

    return read_files
