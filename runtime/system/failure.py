"""Errors that end a verb or a program with a message and an exit code."""

from __future__ import annotations

import os
import re
import shlex
import sys

from .text import printable
from .untrusted_files import Unreadable


class Failure(Exception):
    """An error of a verb or a node: what is wrong (title), what to do next (hint), and the exit code."""

    def __init__(self, title: str, hint: str = "", code: int = 1) -> None:
        super().__init__(title)
        self.title, self.hint, self.code = title, hint, code


class NodeMustNotStart(Failure):
    """Raised when this node must not start its ranks, for a reason that is not a failure of this node."""

    def __init__(self, code: int, title: str, hint: str = "") -> None:
        super().__init__(title, hint, code)


def print_failure(error: Failure | Unreadable) -> None:
    print(f"error: {printable(str(error))}", file=sys.stderr)
    if hint := getattr(error, "hint", ""):
        print(f"  hint: {printable(insert_jobctl_path(hint))}", file=sys.stderr)


def insert_jobctl_path(hint: str) -> str:
    """Return the hint with the full path of jobctl, so that users, who do not have it on PATH, can paste commands."""
    program = sys.argv[0]
    if os.path.basename(program) != "jobctl":
        return hint
    relative = os.path.relpath(program)
    path = shlex.quote(relative if not relative.startswith("..") and os.sep in relative else os.path.abspath(program))
    return re.sub(r"\bjobctl(?= [a-z])", lambda _: path, hint)
