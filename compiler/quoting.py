"""The only place where a value becomes shell text."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from .words import Concat, RuntimeVar, Word


def sh(value: Word | int | Iterable[Word]) -> str:
    """Shell text of one word, or of several joined by spaces. Literals are quoted, runtime variables expanded."""
    if isinstance(value, RuntimeVar):
        return f'"${{{value.variable}}}"'
    if isinstance(value, Concat):
        return "".join(sh(part) for part in value)
    if isinstance(value, (tuple, list)):
        return " ".join(sh(part) for part in value)
    return shlex.quote(str(value))


def comment(value: object) -> str:
    """User text inside a `#` comment: one line, no control characters."""
    return "".join(c if c.isprintable() else "?" for c in str(value))
