"""Print the output of all commands, so that no value, file name or file content can control the terminal or forge a
line.

print_lines  lines; embedded newlines, control characters and direction changes (Unicode bidi) are escaped
print_text   text with several lines, such as a page or YAML; escaped in the same way, except for newlines
print_json   a document; escaped with JSON escapes, so that it is parsed back unchanged
"""

import json
from typing import Any, TextIO

from ..diagnostics.origin import escape_to_one_line


def print_lines(*lines: str, file: TextIO | None = None, flush: bool = False) -> None:
    print("\n".join(escape_to_one_line(line, keep="\t") for line in lines), file=file, flush=flush)


def print_text(text: str) -> None:
    if text:
        print_lines(*text.removesuffix("\n").split("\n"))


def print_json(tree: Any) -> None:
    print_text(to_printable_json(tree))


def to_printable_json(tree: Any) -> str:
    """Return JSON with an indent of two spaces. All its characters except the newlines are printable."""
    text = json.dumps(tree, indent=2, ensure_ascii=False)
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)
