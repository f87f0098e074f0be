"""Parse options for all verbs, and report failures with one error line and a hint."""

from __future__ import annotations

import argparse
import os
import re
import signal
import sys
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import NoReturn

from ..exit_codes import INTERRUPTED
from .failure import Failure, print_failure
from .text import printable
from .untrusted_files import Unreadable

NO_READER = 1
ENDING_SIGNALS = (signal.SIGTERM, signal.SIGHUP)
HELP_WIDTH = 80


class Parser(argparse.ArgumentParser):
    """Parser for the options of a verb. Raises Failure with exit code 2 for an invalid option."""

    def __init__(self, verb: str, summary: str = "", end: str = "", program: str = "jobctl") -> None:
        """end: the last paragraph of the help"""
        super().__init__(
            prog=f"{program} {verb}",
            description=summary,
            epilog=end,
            allow_abbrev=False,
            add_help=False,
            formatter_class=partial(argparse.HelpFormatter, max_help_position=22, width=HELP_WIDTH),
        )
        self.add_argument("-h", "--help", action="help", help="print this help")

    def error(self, message: str) -> NoReturn:
        message = re.sub("^unrecognized arguments:", "unknown option:", message)
        message = re.sub("^argument (--[a-z-]+).*: expected one argument$", r"\1 needs a value", message)
        raise Failure(message, f"{self.prog} --help", 2)


def run_verb(verb: Callable[[list[str]], int], argv: list[str]) -> int:
    """Run the verb and return its exit code. If the verb fails, print why."""
    try:
        code = verb(argv)
        sys.stdout.flush()
        return code
    except (Failure, Unreadable) as error:
        sys.stdout.flush()
        print_failure(error)
        return error.code if isinstance(error, Failure) else 1
    except ModuleNotFoundError as error:  # jobctl contains only the modules that the job needed when it was compiled
        if (error.name or "").split(".")[0] not in ("jobc_runtime", "jobc_engine"):
            raise
        title = f".jobc/job.json needs {error.name}, which this jobctl does not contain"
        print_failure(Failure(title, "the file was edited or damaged: compile the job again with --force"))
        return 1
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # nobody will read what is still in the buffer
        return NO_READER
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)  # so that a shell waiting for this program exits too
        return INTERRUPTED
    except OSError as error:  # a run or artifact that this user cannot read
        print(f"error: cannot read {printable(str(error.filename))}: {error.strerror}", file=sys.stderr)
        return 1


class SignalReceived(BaseException):
    """A signal that would terminate this program. Its argument is the signal's number."""


def run_verb_until_ended(verb: Callable[[list[str]], int], argv: list[str]) -> int:
    """Run the verb as run_verb() does. A signal that would terminate this program raises an exception in the verb."""
    for number in ENDING_SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:  # it is ignored under nohup
            signal.signal(number, _raise_on_signal)
    try:
        return run_verb(verb, argv)
    except SignalReceived as ended:
        signal.signal(ended.args[0], signal.SIG_DFL)
        os.kill(os.getpid(), ended.args[0])
        return 1


def _raise_on_signal(number: int, frame: FrameType | None) -> None:
    raise SignalReceived(number)
