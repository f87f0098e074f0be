"""Errors that end a verb or a program with a message and an exit code."""

from __future__ import annotations

import sys

from .text import printable


class Failure(Exception):
    """A verb's error: what is wrong (title), what to do next (hint), and the exit code."""

    def __init__(self, title: str, hint: str = "", code: int = 1) -> None:
        super().__init__(title)
        self.title, self.hint, self.code = title, hint, code


class NodeMustNotStart(Exception):
    """Raised when this node must not start its ranks, for a reason that is not a failure of this node."""

    def __init__(self, code: int, why: str, hint: str = "") -> None:
        super().__init__(why)
        self.code, self.why, self.hint = code, why, hint


def print_failure(failure: Failure) -> None:
    print(f"error: {printable(failure.title)}", file=sys.stderr)
    if failure.hint:
        print(f"  hint: {printable(failure.hint)}", file=sys.stderr)
