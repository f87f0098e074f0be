"""Parse the command line and call the command's function. Report every error as a diagnostic."""

import os
import sys

from ..diagnostics.diagnostic import CompileError, Diagnostic
from ..untrusted_files import Unreadable
from .arguments import VERBS, Arguments, parse, parse_leniently
from .reporting import (
    DIAGNOSTICS,
    INTERRUPTED,
    OK,
    OUR_BUG,
    TROUBLE,
    input_too_large_diagnostic,
    report_diagnostics,
    system_error_diagnostic,
)
from .terminal import print_lines


def run_command_line(words: list[str], of_process: bool) -> int:
    """Run one command and return its exit code. Never raises; errors are printed to stderr as diagnostics.

    of_process: whether the words are this process's own arguments. Only then may the compile be recorded
    (skip_unchanged.py).
    """
    arguments = parse_leniently(words)
    try:
        arguments = parse(words)
        status = _dispatch(arguments, words if of_process else None)
        sys.stdout.flush()  # flush here, where a full disk is reported
        return status
    except CompileError as error:
        report_diagnostics(error.diagnostics, arguments)
        return _error_exit_code(arguments)
    except KeyboardInterrupt:
        return INTERRUPTED
    except (OSError, Unreadable) as error:
        report_diagnostics([system_error_diagnostic(error)], arguments)
        return _error_exit_code(arguments)
    except (MemoryError, RecursionError) as error:
        report_diagnostics([input_too_large_diagnostic(error)], arguments)
        return _error_exit_code(arguments)
    except (Exception, SystemExit) as error:  # SystemExit from a plugin would exit without a message
        if os.environ.get("JOBC_DEBUG"):
            raise
        because = f"{type(error).__name__}: {error}"
        hint = "set JOBC_DEBUG=1 to get the traceback, and report the bug with the traceback and the command line"
        report_diagnostics([Diagnostic("JC9001", "internal error in jobc", because, hint)], arguments)
        return OUR_BUG


def _error_exit_code(arguments: Arguments) -> int:
    return TROUBLE if arguments.command == "diff" else DIAGNOSTICS


def _dispatch(arguments: Arguments, typed: list[str] | None) -> int:
    command = arguments.command
    if arguments.help or command == "help":
        from .help import show_help

        return show_help(arguments)
    if arguments.version:
        from ... import __version__

        print_lines(f"jobc {__version__}")
        return OK
    if command == "why":
        from .why import command as why

        return why.COMMANDS[command](arguments)
    if command == "verify":
        from . import verify

        return verify.COMMANDS[command](arguments)
    if command in ("explain", "backends"):
        from . import explain_and_backends

        return explain_and_backends.COMMANDS[command](arguments)
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

    if typed is not None and command == "compile" and not (arguments.multirun or arguments.cfg or arguments.info):
        from .skip_unchanged import compile_and_record

        return compile_and_record(typed, lambda: compiling.compile_command(arguments))
    return compiling.COMMANDS[command](arguments)
