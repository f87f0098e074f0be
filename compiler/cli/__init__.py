"""The command line: argv in, exit code out (0 success, 1 diagnostics, 2 a bug in jobc; see diff.py for jobc diff).

The first word without `=` is a command; without a command, jobc compiles. Each command is one function in a file of
this folder. Only these files print; the modules that they call return values. Only commands that compose import Hydra.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from ..diagnostics.diagnostic import CompileError, Diagnostic
from ..untrusted_files import Unreadable
from .arguments import VERBS, Arguments, parse, parse_leniently
from .reporting import DIAGNOSTICS, INTERRUPTED, OK, OUR_BUG, TROUBLE, of_system, report, too_large
from .streams import ignore_broken_pipes
from .terminal import put


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. Never raises; errors are printed to stderr as diagnostics."""
    with ignore_broken_pipes():
        return _main(list(sys.argv[1:] if argv is None else argv))


def _main(words: list[str]) -> int:
    arguments = parse_leniently(words)
    try:
        arguments = parse(words)
        status = _dispatch(arguments)
        sys.stdout.flush()  # flush here, where a full disk is reported
        return status
    except CompileError as error:
        report(error.diagnostics, arguments)
        return _refused(arguments)
    except KeyboardInterrupt:
        return INTERRUPTED
    except (OSError, Unreadable) as error:
        report([of_system(error)], arguments)
        return _refused(arguments)
    except (MemoryError, RecursionError) as error:
        report([too_large(error)], arguments)
        return _refused(arguments)
    except (Exception, SystemExit) as error:  # SystemExit from a plugin would exit without a message
        if os.environ.get("JOBC_DEBUG"):
            raise
        because = f"{type(error).__name__}: {error}"
        hint = "set JOBC_DEBUG=1 for the traceback, and report it with the command line"
        report([Diagnostic("JC9001", "internal error in jobc", because, hint)], arguments)
        return OUR_BUG


def _refused(arguments: Arguments) -> int:
    return TROUBLE if arguments.command == "diff" else DIAGNOSTICS


def _dispatch(arguments: Arguments) -> int:
    command = arguments.command
    if arguments.help or command == "help":
        from .help import show_help

        return show_help(arguments)
    if arguments.version:
        from ... import __version__

        put(f"jobc {__version__}")
        return OK
    if command == "why":
        from .why import command as why

        return why.COMMANDS[command](arguments)
    if command == "verify":
        from . import verify

        return verify.COMMANDS[command](arguments)
    if command in ("explain", "backends"):
        from . import inspect

        return inspect.COMMANDS[command](arguments)
    if command in ("run", "watch", *VERBS):
        from . import runs

        return runs.COMMANDS[command](arguments)
    if command == "ls":
        from . import ls

        return ls.COMMANDS[command](arguments)
    if command == "diff":
        from . import diff

        return diff.COMMANDS[command](arguments)
    if command == "plan":
        from . import plan

        return plan.COMMANDS[command](arguments)
    if command == "init":
        from .init import command as init

        return init.COMMANDS[command](arguments)
    if command in ("completion", "_complete"):
        from . import completion

        return completion.COMMANDS[command](arguments)
    from . import compiling

    return compiling.COMMANDS[command](arguments)
