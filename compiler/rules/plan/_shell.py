"""What the rules on a user's own command share: the text that a shell would run, and its parts."""

from __future__ import annotations

import re
from collections.abc import Sequence

RUNS = re.compile(r"\bpython[\d.]*\b|\.py\b|\btorchrun\b")  # a part of a shell's text that trains
_SHELLS = ("sh", "bash", "dash", "ksh", "zsh")
_QUOTED = re.compile(r"'[^']*'|\"(?:\\.|[^\"\\])*\"|\\.", re.DOTALL)


def program(command: Sequence[str]) -> str:
    """The name of the program without its folder; "" for none."""
    return command[0].rpartition("/")[2] if command else ""


def shell_text(command: Sequence[str] | None) -> str:
    """The text behind `bash -c`, below a line `set …` with the shell's own options; "" for other commands."""
    if not command or program(command) not in _SHELLS:
        return ""
    at = next((i for i, word in enumerate(command) if re.fullmatch(r"-[A-Za-z]*c[A-Za-z]*", word)), len(command))
    text = next((i for i in range(at + 1, len(command)) if command[i] != "pipefail"), None)
    return f"set {' '.join(command[1:text])}\n{command[text]}" if text else ""


def unquoted(text: str) -> str:
    """The text with quotes and what a backslash hides blanked out, so that the signs left are the shell's."""
    return _QUOTED.sub(lambda found: "_" * len(found[0]), text)
