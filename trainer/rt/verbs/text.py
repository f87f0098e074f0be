"""Text from files, hosts and engines, made fit for a terminal."""

from __future__ import annotations

import re

# What a terminal takes for a command: C0 but tab and newline, DEL, C1, and what changes the direction of text.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    """Return the text without control characters; tab and newline stay."""
    return _CONTROL.sub("", text)


def one_line(text: str) -> str:
    """Return the text without control characters and newlines."""
    return printable(text.replace("\n", " ")).strip()
