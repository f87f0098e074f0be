"""Format a diagnostic's source line, with a caret under the value or under an invalid key.

In:  a position, and the texts of the files that were read.
Out: lines for the terminal. There are none if the position is a whole file, or if the value may be a secret.
"""

import re
import unicodedata
from collections.abc import Mapping

from .origin import COMMAND_LINE, Origin

LONGEST = 110  # columns; a longer line would wrap, and the caret would be misplaced
INDENT = "      "
_SCALAR = re.compile(r"""\"(?:\\.|[^"\\])*"|'(?:[^']|'')*'|[^\s,\[\]{}#](?:(?!:(?:\s|$))[^,\[\]{}#])*(?<!\s)|.""")


def source_line_with_caret(origin: Origin, prefix: str, texts: Mapping[str, str]) -> list[str]:
    """Return the source line and its caret.

    prefix: text before the position.
    texts: `ROOT:PATH` -> text.
    """
    if origin.root == COMMAND_LINE:
        key, equals, value = origin.path.partition("=")
        at_value = equals and value and origin.column == 0
        before, marked = (f"{prefix}{key}=", value) if at_value else (prefix, key if origin.column else origin.path)
        return [" " * _display_width(before) + "^" * _display_width(marked)] if _fits_on_line(before + marked) else []
    lines = texts.get(f"{origin.root}:{origin.path}", "").split("\n")
    if not 1 <= origin.line <= len(lines):
        return []
    line, index = lines[origin.line - 1].rstrip(), origin.column - 1
    if not 0 <= index < len(line) or not _fits_on_line(line):
        return []
    match = _SCALAR.match(line, index)
    shown = line.lstrip()
    before = line[len(line) - len(shown) : index]
    return [INDENT + shown, INDENT + " " * _display_width(before) + "^" * _display_width(match[0] if match else "^")]


def _fits_on_line(line: str) -> bool:
    return line.isprintable() and _display_width(line) <= LONGEST


def _display_width(text: str) -> int:
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return len(text) + wide - sum(unicodedata.combining(c) > 0 for c in text)
