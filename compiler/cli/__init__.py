"""The command line: argv in, exit status out (0 ok, 1 diagnostics, 2 our bug; those of diff are in diff.py).

The first word without `=` is a command; no command means compile. Each command is one function in one of the files
beside this one; they print, everything below returns values. Hydra is imported only by commands that compose.
"""

from __future__ import annotations

import errno
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence

from ..diagnostics import CompileError, Diagnostic, format_text
from .arguments import SCRIPTS, Arguments, asked, parse
from .streams import readers_may_leave

OK, DIAGNOSTICS, OUR_BUG, INTERRUPTED = 0, 1, 2, 130
NO_READER = 141  # of run and watch, as of any program that SIGPIPE ends: how the run ends is not known
TROUBLE = 2  # of diff, where 1 says that two things differ

_NAMELESS = {  # errors of the operating system that name no file -> hint
    errno.ENOENT: "is the current folder still there?",
    errno.ENOSPC: "free space where the output goes, or send it elsewhere",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. Never raises; what goes wrong is printed to stderr as diagnostics."""
    with readers_may_leave():
        return _main(list(sys.argv[1:] if argv is None else argv))


def _main(words: list[str]) -> int:
    arguments = asked(words)
    try:
        arguments = parse(words)
        status = _dispatch(arguments)
        sys.stdout.flush()  # here, where a full disk is reported
        return status
    except CompileError as error:
        report(error.diagnostics, arguments)
        return _refused(arguments)
    except KeyboardInterrupt:
        return INTERRUPTED
    except OSError as error:
        report([of_system(error)], arguments)
        return _refused(arguments)
    except (Exception, SystemExit) as error:  # of a plugin, which would end this without a word
        if os.environ.get("JOBC_DEBUG"):
            raise
        because = f"{type(error).__name__}: {error}"
        hint = "set JOBC_DEBUG=1 for the traceback, and please report it with the command line"
        report([Diagnostic("JC9001", "jobc itself failed", because, hint)], arguments)
        return OUR_BUG


def of_system(error: OSError) -> Diagnostic:
    """JC1001 for what the operating system refuses."""
    title, hint = f"cannot use {error.filename}", "check its permissions"
    if not error.filename:
        title, hint = "the operating system refuses", _NAMELESS.get(error.errno or 0, "mend that, and try again")
    return Diagnostic("JC1001", title, error.strerror or str(error), hint)


def _refused(arguments: Arguments) -> int:
    return TROUBLE if arguments.command == "diff" else DIAGNOSTICS


def report(diagnostics: Sequence[Diagnostic], arguments: Arguments | None = None) -> None:
    """Diagnostics go to stderr, in colour on a terminal that has not asked for none (no-color.org).

    With a --format for machines they go to stdout, as one document, also when there are none.
    """
    if arguments is not None and arguments.for_machines:
        from .output import FORMATS

        print(FORMATS[arguments.format or ""](diagnostics, dict(arguments.config_dirs)), end="")
    elif shown := format_text(diagnostics, sys.stderr.isatty() and not os.environ.get("NO_COLOR"), _texts(diagnostics)):
        print(shown, file=sys.stderr)


def tell_progress(every_s: float = 5) -> Callable[[int, int], None]:
    """For a sweep that takes its time: a line to stderr every some seconds, from the first ones on."""
    said_at = time.monotonic()

    def tell(done: int, count: int) -> None:
        nonlocal said_at
        if time.monotonic() - said_at >= every_s:
            said_at = time.monotonic()
            print(f"jobc: {done:,} of {count:,} points", file=sys.stderr, flush=True)

    return tell


def _texts(diagnostics: Sequence[Diagnostic]) -> Mapping[str, str]:
    """`ROOT:PATH` -> text of the files that a compile has read; none when no place is in one."""
    if not any(d.origin and d.origin.line for d in diagnostics):
        return {}
    from ..source import read_files

    return read_files


def _dispatch(arguments: Arguments) -> int:
    command = arguments.command
    if arguments.help or command == "help":
        from .help import show_help

        return show_help(arguments)
    if arguments.version:
        from ... import __version__

        print(f"jobc {__version__}")
        return OK
    if command == "why":
        from . import why

        return why.COMMANDS[command](arguments)
    if command == "verify":
        from . import verify

        return verify.COMMANDS[command](arguments)
    if command in ("explain", "backends"):
        from . import inspect

        return inspect.COMMANDS[command](arguments)
    if command in ("run", "watch", *SCRIPTS):
        from . import runs

        return runs.COMMANDS[command](arguments)
    if command == "diff":
        from . import diff

        return diff.COMMANDS[command](arguments)
    if command == "plan":
        from . import plan

        return plan.COMMANDS[command](arguments)
    if command == "init":
        from . import init

        return init.COMMANDS[command](arguments)
    if command in ("completion", "_complete"):
        from . import completion

        return completion.COMMANDS[command](arguments)
    from . import compiling

    return compiling.COMMANDS[command](arguments)
