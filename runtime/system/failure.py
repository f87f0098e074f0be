"""Errors that end a verb or a program with a message and an exit code."""

from __future__ import annotations


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
