"""Parse the command line and call the command's function. Report every error as a diagnostic."""

import os
import sys
from collections.abc import Callable
from importlib import import_module

from ..diagnostics.diagnostic import CompileError, Diagnostic
from .arguments import VERBS, Arguments, parse_arguments, parse_leniently
from .reporting import (
    DIAGNOSTICS,
    INTERRUPTED,
    OK,
    OUR_BUG,
    TROUBLE,
    SystemFailure,
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
        arguments = parse_arguments(words)
        status = _run_command(arguments, words if of_process else None)
        sys.stdout.flush()  # flush here, where a full disk is reported
        return status
    except CompileError as error:
        report_diagnostics(error.diagnostics, arguments)
        return _error_exit_code(arguments)
    except KeyboardInterrupt:
        return INTERRUPTED
    except SystemFailure as error:
        report_diagnostics([system_error_diagnostic(error)], arguments)
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


_COMMANDS = {  # command -> its module, which is imported only when the command is used, and its function
    "compile": ("compiling", "compile_command"),
    "check": ("compiling", "check_command"),
    "plan": ("plan", "plan_command"),
    "diff": ("diff", "diff_command"),
    "run": ("runs", "run_command"),
    "watch": ("runs", "watch_command"),
    **dict.fromkeys(VERBS, ("runs", "verb_command")),
    "ls": ("ls", "ls_command"),
    "why": ("why.command", "why_command"),
    "verify": ("verify", "verify_command"),
    "explain": ("explain_and_backends", "explain_command"),
    "backends": ("explain_and_backends", "backends_command"),
    "init": ("init.command", "init_command"),
    "completion": ("completion", "completion_command"),
    "_complete": ("completion", "complete_command"),
    "help": ("help", "show_help"),
}


def _run_command(arguments: Arguments, typed: list[str] | None) -> int:
    command_name = "help" if arguments.help else arguments.command
    if arguments.version and command_name != "help":
        from ... import __version__

        print_lines(f"jobc {__version__}")
        return OK
    module, function = _COMMANDS[command_name]
    command: Callable[[Arguments], int] = getattr(import_module(f".{module}", __package__), function)
    is_plain_compile = command_name == "compile" and not (arguments.multirun or arguments.cfg or arguments.info)
    if typed is not None and is_plain_compile:
        from .skip_unchanged import compile_and_record

        return compile_and_record(typed, lambda: command(arguments))
    return command(arguments)
