"""Describe the Python exception that terminated a rank in one line for status: KeyError: 'label_17' (train.py:6).

In:  the end of the rank's log. The user's program wrote it, so it is untrusted, and is truncated and escaped.
Out: one printable line, or "" if the log ends neither with a traceback nor with Python's message that it cannot compile
     the script or find the module of -m.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from ..system.text import escape_unprintable

TRACEBACK = "Traceback (most recent call last)"
MOST_CHARACTERS = 160
MOST_LINES_AFTER = 20  # the message, and libraries' output at exit; more lines mean that the program continued
# torch 2.3 to 2.13 print this before each line of a traceback (torch/distributed/c10d_logger, _distributed_excepthook)
RANK_PREFIX = re.compile(r"^\[rank[0-9]+\]: ?")
FRAME = re.compile(r'  File "([^"]+)", line ([0-9]+)')
EXCEPTION = re.compile(r"[A-Za-z_][\w.]*(: .*)?")
# Python 3.8 to 3.14 print no traceback for the script itself and for -m MODULE.
SYNTAX = re.compile(
    r"(?m)^  File \"([^\"\n]+)\", line ([0-9]+)\n(?: .*\n){1,3}((?:Syntax|Indentation|Tab)Error: .*)\s*\Z"
)
NO_MODULE = re.compile(r"\S*python[0-9.]*: ((?:No module named|Error while finding module) .*)\s*\Z")
LIBRARY = re.compile(r"/(site|dist)-packages/|/lib/python3|^<")


def last_exception_in_log(log: str, code: str) -> str:
    """Return the last exception in a log, with the line in the user's code that raised it, or "" if there is none.

    code: folder of the user's code. The file's path is given relative to it.
    """
    lines = [RANK_PREFIX.sub("", line) for line in log.split("\n")]
    begins = [index for index, line in enumerate(lines) if TRACEBACK in line]
    if not begins:
        return _without_traceback("\n".join(lines[-MOST_LINES_AFTER:]), code)
    frames: list[tuple[str, str]] = []
    for index, line in enumerate(lines[begins[-1] + 1 :], begins[-1] + 1):
        if frame := FRAME.match(line):
            frames.append((frame[1], frame[2]))
        elif not line.startswith(" "):
            is_last = len(lines) - index <= MOST_LINES_AFTER and EXCEPTION.fullmatch(line)
            return f"{_escape_and_shorten(line)}{_user_code_position(frames, code)}" if is_last else ""
    return ""


def last_line_in_log(log: str) -> str:
    """Return the last line that is not blank, or "" if there is none. For a progress bar, return its last state."""
    line = log.rstrip().rpartition("\n")[2]
    return _escape_and_shorten(RANK_PREFIX.sub("", line).rpartition("\r")[2].strip())


def _without_traceback(end_of_log: str, code: str) -> str:
    if syntax := SYNTAX.search(end_of_log):
        return f"{_escape_and_shorten(syntax[3])}{_user_code_position([(syntax[1], syntax[2])], code)}"
    last_line = end_of_log.rstrip("\n").rpartition("\n")[2]
    no_module = NO_MODULE.match(last_line)
    return _escape_and_shorten(no_module[1]) if no_module else ""


def _user_code_position(frames: list[tuple[str, str]], code: str) -> str:
    user_frames = [frame for frame in frames if not LIBRARY.search(frame[0])] or frames
    if not user_frames:
        return ""
    file, line = user_frames[-1]
    name = file[len(code) + 1 :] if file.startswith(f"{code}/") else PurePosixPath(file).name
    return f" ({_escape_and_shorten(name)}:{line})"


def _escape_and_shorten(text: str) -> str:
    text = escape_unprintable(text)
    return text if len(text) <= MOST_CHARACTERS else f"{text[: MOST_CHARACTERS - 1]}…"
