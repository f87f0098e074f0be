"""Print all commands' output. No value, file name or file content can control the terminal or forge a line.

put         lines; newlines inside one, control characters and direction changes (Unicode bidi) are escaped
put_text    a text of several lines, such as a page or YAML; escaped the same way, except newlines
put_json    a document; escaped with JSON escapes, so that it is parsed back unchanged
put_styled  diagnostics, which are escaped where they are formatted, because they may have colors
"""

from __future__ import annotations

import json
import sys
from typing import Any, TextIO

from ..diagnostics.origin import one_line


def put(*lines: str, file: TextIO | None = None, flush: bool = False) -> None:
    print("\n".join(one_line(line, keep="\t") for line in lines), file=file, flush=flush)


def put_text(text: str) -> None:
    if text:
        put(*text.removesuffix("\n").split("\n"))


def put_json(tree: Any) -> None:
    put_text(json_text(tree))


def put_styled(text: str, file: TextIO) -> None:
    print(text, file=file)


def put_progress(line: str) -> None:
    put(line, file=sys.stderr, flush=True)


def json_text(tree: Any) -> str:
    """Return JSON with an indent of two spaces; all characters are printable, or newlines between entries."""
    text = json.dumps(tree, indent=2, ensure_ascii=False)
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)
