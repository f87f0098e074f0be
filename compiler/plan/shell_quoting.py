"""Filters by place: the only way in which a value becomes text of a file that is not YAML or JSON.

    sh         one shell word, or several
    directive  the rest of a line that an engine reads before any shell does: `#SBATCH`, `#PBS`
    comment    the rest of a `#` comment, or a line of Markdown
    raw        numbers, and shell code that Python wrote (`ShellCode`)

Source: sbatch 25.11, src/sbatch/opt.c, _get_argument(): spaces, quotes, backslash and # have a meaning in a directive
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable

from .runtime_vars import Concat, RuntimeVar, Word

DIRECTIVE = re.compile(r"[\w.,:+=/@%&|*()\[\]-]+", re.ASCII)  # means itself to every engine that reads directives
PLACES = ("sh", "directive", "comment", "raw")


class ShellCode(str):
    """Shell code that Python wrote, in which every value of the job has passed sh()."""

    __slots__ = ()


class Inexpressible(ValueError):
    """Raised for text that cannot be quoted for its place."""


def sh(value: Word | int | Iterable[Word], indent: int = 0) -> str:
    """Shell text of one word, or of several joined by spaces. Literals are quoted, runtime variables expanded.

    indent: spaces before each line but the first, in a block of Markdown
    """
    if indent:
        return sh(value).replace("\n", f"\n{' ' * indent}")
    if isinstance(value, RuntimeVar):
        return f'"${{{value.variable}}}"'
    if isinstance(value, Concat):
        return "".join(sh(part) for part in value)
    if isinstance(value, (tuple, list)):
        return " ".join(sh(part) for part in value)
    return shlex.quote(str(value))


def directive(value: object) -> str:
    """Text that an engine takes as it is in one of its directives. Raises Inexpressible for any other."""
    text = str(value)
    if not DIRECTIVE.fullmatch(text):
        raise Inexpressible("it would be split or cut: use only letters, digits and .,:+=/@%&|*()[]-_")
    return text


def comment(value: object) -> str:
    """User text inside a `#` comment: one line, no control characters."""
    return "".join(c if c.isprintable() else "?" for c in str(value))


def raw(value: object) -> str:
    """A number or ShellCode as it is. Raises TypeError for any other text: it may come from the job."""
    if isinstance(value, (int, float, ShellCode)):
        return str(value)
    raise TypeError(f"| raw accepts numbers and ShellCode, not {type(value).__name__}: use another filter")


def table_row(value: object) -> str:
    """A row of a table that programs read line by line. Raises Inexpressible for several rows, or an option."""
    text = str(value)
    if not text.isprintable() or not text or text.startswith("-"):
        raise Inexpressible("a row must not have control characters or begin with a dash")
    return text
