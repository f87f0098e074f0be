"""Make text from files, hosts and engines safe to print on a terminal."""

from __future__ import annotations

import re
from collections.abc import Sequence

MOST_RANKS = 16  # how many ranks are named on one line
UNITS = ("B", "KiB", "MiB", "GiB", "TiB")

# Control characters that terminals interpret: C0 except tab and newline, DEL, C1, and those that change text direction.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
# In logs, group 1 is kept: colors, and the characters and the sequence with which progress bars rewrite their line.
_IN_LOG = re.compile(
    "(\x1b\\[[0-9;:]*[mK]|[\b\r])"
    "|\x1b\\[[0-?]*[ -/]*[@-~]"  # other sequences, such as those that move the cursor to another line
    "|\x1b[]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\\\)?"  # texts for the terminal, such as its title
    f"|{_CONTROL.pattern}"
)


def printable(text: str) -> str:
    """Return the text without control characters, but with its tabs and newlines."""
    return _CONTROL.sub("", text)


def printable_log(text: str) -> str:
    """Return a part of a log with its colors and progress bars, but without other control characters."""
    return _IN_LOG.sub(r"\1", text)


def one_line(text: str) -> str:
    """Return the text without control characters and newlines."""
    return printable(text.replace("\n", " ")).strip()


def print_line(text: str) -> None:
    """Print one line, and flush it, so that it stays in order with output from engine clients."""
    print(one_line(text), flush=True)


def count_with_noun(number: int, noun: str) -> str:
    """Return "1 node" or "2 nodes"."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def format_size(size: float) -> str:
    for unit in UNITS:
        if size < 1024 or unit == UNITS[-1]:
            break
        size /= 1024
    return f"{size:.0f} {unit}" if size >= 10 or unit == "B" else f"{size:.1f} {unit}"


def describe_ranks(ranks: Sequence[int]) -> str:
    """Return "rank 3" or "ranks 0 1 2"; after 16 ranks, the rest is printed as a count."""
    more = f" and {len(ranks) - MOST_RANKS} more" if len(ranks) > MOST_RANKS else ""
    return f"rank{'' if len(ranks) == 1 else 's'} {' '.join(map(str, ranks[:MOST_RANKS]))}{more}"


def escape_unprintable(text: str) -> str:
    """Escape control characters and bytes that are not valid text."""
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)
