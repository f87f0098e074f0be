"""Text from files, hosts and engines, made fit for a terminal."""

from __future__ import annotations

import re
from collections.abc import Sequence

MOST_RANKS = 16  # named in one line

# What a terminal takes for a command: C0 but tab and newline, DEL, C1, and what changes the direction of text.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    """Return the text without control characters; tab and newline stay."""
    return _CONTROL.sub("", text)


def one_line(text: str) -> str:
    """Return the text without control characters and newlines."""
    return printable(text.replace("\n", " ")).strip()


def named_ranks(ranks: Sequence[int]) -> str:
    """Return "rank 3" or "ranks 0 1 2"; the last of many are counted."""
    more = f" and {len(ranks) - MOST_RANKS} more" if len(ranks) > MOST_RANKS else ""
    return f"rank{'' if len(ranks) == 1 else 's'} {' '.join(map(str, ranks[:MOST_RANKS]))}{more}"
