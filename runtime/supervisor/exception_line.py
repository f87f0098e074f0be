"""Describe the Python exception that ended a rank, as one line for status: KeyError: 'label_17' (train.py:6).

In:  the end of the rank's log. The user's program wrote it, so it is untrusted, and is truncated and escaped.
Out: one printable line, or "" if the log does not end with a traceback.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath

TRACEBACK = "Traceback (most recent call last)"
MOST_CHARACTERS = 160
MOST_LINES_AFTER = 20  # for the message and output of closing libraries; after more lines, the program continued
# torch 2.3 to 2.13 print this before each line of a traceback (torch/distributed/c10d_logger, _distributed_excepthook)
RANK_PREFIX = re.compile(r"^\[rank[0-9]+\]: ?")
FRAME = re.compile(r'  File "([^"]+)", line ([0-9]+)')
EXCEPTION = re.compile(r"[A-Za-z_][\w.]*(: .*)?")
LIBRARY = re.compile(r"/(site|dist)-packages/|/lib/python3|^<")


def last_exception_in_log(log: str, code: str) -> str:
    """Return the last exception in a log, with the line in the user's code that raised it; "" if there is none.

    code: folder of the user's code; the file is named relative to it.
    """
    lines = [RANK_PREFIX.sub("", line) for line in log.split("\n")]
    begins = [index for index, line in enumerate(lines) if TRACEBACK in line]
    if not begins:
        return ""
    frames: list[tuple[str, str]] = []
    for index, line in enumerate(lines[begins[-1] + 1 :], begins[-1] + 1):
        if frame := FRAME.match(line):
            frames.append((frame[1], frame[2]))
        elif not line.startswith(" "):
            is_last = len(lines) - index <= MOST_LINES_AFTER and EXCEPTION.fullmatch(line)
            return f"{_printable(line)}{_position(frames, code)}" if is_last else ""
    return ""


def _position(frames: list[tuple[str, str]], code: str) -> str:
    user_frames = [frame for frame in frames if not LIBRARY.search(frame[0])] or frames
    if not user_frames:
        return ""
    file, line = user_frames[-1]
    name = file[len(code) + 1 :] if file.startswith(f"{code}/") else PurePosixPath(file).name
    return f" ({_printable(name)}:{line})"


def _printable(text: str) -> str:
    text = "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)
    return text if len(text) <= MOST_CHARACTERS else f"{text[: MOST_CHARACTERS - 1]}…"
