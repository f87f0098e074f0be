"""Quote values for their context. Only these functions write values into files other than YAML and JSON.

    sh         one or more shell words
    directive  the rest of a line that an engine reads instead of a shell: `#SBATCH`, `#PBS`
    comment    the rest of a `#` comment, or a line of Markdown
    raw        numbers, and shell code written in Python (`ShellCode`)

Source: sbatch 25.11, src/sbatch/opt.c, _get_argument(): spaces, quotes, backslashes and # have a special meaning in a
directive
"""

import re
import shlex
from collections.abc import Iterable

from .runtime_vars import Concat, RuntimeVar, Word

DIRECTIVE = re.compile(r"[\w.,:+=/@%&|*()\[\]-]+", re.ASCII)  # read literally by every engine that has directives
PLACES = ("sh", "directive", "comment", "raw")


class ShellCode(str):
    """Shell code written in Python. Every value from the job in it must have been quoted by sh()."""

    __slots__ = ()


class UnquotableText(ValueError):
    """Raised for text that cannot be quoted for its context."""


def sh(value: Word | int | Iterable[Word], indent: int = 0) -> str:
    """Return one or more shell words, joined by spaces. Literals are quoted, and runtime variables are expanded.

    indent: number of spaces before each line except the first, for a Markdown block.
    """
    if indent:
        return sh(value).replace("\n", f"\n{' ' * indent}")
    if isinstance(value, RuntimeVar):
        return f'"${{{value.env_name}}}"'
    if isinstance(value, Concat):
        return "".join(sh(part) for part in value)
    if isinstance(value, (tuple, list)):
        return " ".join(sh(part) for part in value)
    return shlex.quote(str(value))


def directive(value: object) -> str:
    """Return text that engines read literally in a directive. Raises UnquotableText for any other text."""
    text = str(value)
    if not DIRECTIVE.fullmatch(text):
        raise UnquotableText("the text would be split or cut: use only letters, digits and .,:+=/@%&|*()[]-_")
    return text


def comment(value: object) -> str:
    """Return user text for a `#` comment: one line, with control characters replaced by `?`."""
    return "".join(c if c.isprintable() else "?" for c in str(value))


def raw(value: object) -> str:
    """Return a number or ShellCode unchanged. Raises TypeError for any other value, which may come from the job."""
    if isinstance(value, (int, float, ShellCode)):
        return str(value)
    raise TypeError(f"| raw accepts numbers and ShellCode, not {type(value).__name__}: use another filter")


def checked_table_row(value: object) -> str:
    """Return a line of a file that programs read line by line. Raises UnquotableText for several lines or an option."""
    text = str(value)
    if not text.isprintable() or not text or text.startswith("-"):
        raise UnquotableText("a row must not have control characters or begin with a dash")
    return text
