"""What the rules on a user's own command share: the text that a shell would run, and its parts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

RUNS = re.compile(r"\bpython[\d.]*\b|\.py\b|\btorchrun\b")  # a part of a shell's text that trains
_SHELLS = ("sh", "bash", "dash", "ksh", "zsh")
# Programs that start the one behind their options: letters of the options whose value is the next word, and the number
# of words before the program. Manuals of bash 5.2, coreutils 9.1, util-linux 2.38, numactl 2.0.
_STARTERS: Mapping[str, tuple[str, int]] = {
    "chrt": ("TPD", 1), "command": ("", 0), "env": ("uC", 0), "exec": ("a", 0), "ionice": ("cn", 0), "nice": ("n", 0),
    "nohup": ("", 0), "numactl": ("ipmMNCl", 0), "setsid": ("", 0), "stdbuf": ("ioe", 0), "sudo": ("ugCp", 0),
    "taskset": ("", 1), "time": ("fo", 0), "timeout": ("ks", 1), "uv": ("", 1), "poetry": ("", 1),
}  # fmt: skip
_KEYWORDS = ("if", "then", "elif", "else", "while", "until", "do", "!", "{")
_GIVEN = re.compile(r"\w+=.*", re.DOTALL)
_QUOTED = re.compile(r"'[^']*'|\"(?:\\.|[^\"\\])*\"|\\.", re.DOTALL)


def program(command: Sequence[str]) -> str:
    """The name of the program without its folder; "" for none."""
    return command[0].rpartition("/")[2] if command else ""


def started(words: Sequence[str]) -> Sequence[str]:
    """The words from the program on: without `then`, `X=1`, `env X=1`, `timeout -k 9 1h`, `nohup` and their like."""
    at = 0
    while at < len(words):
        if words[at] in _KEYWORDS or _GIVEN.fullmatch(words[at]):
            at += 1
        elif (name := program(words[at : at + 1])) in _STARTERS:
            with_value, others = _STARTERS[name]
            at += 1
            while at < len(words) and (words[at].startswith("-") or _GIVEN.fullmatch(words[at])):
                at += 2 if len(words[at]) == 2 and words[at][1] in with_value else 1
            at += others
        else:
            break
    return words[at:]


def simple_commands(command: Sequence[str]) -> Iterator[Sequence[str]]:
    """The words from the program on: of each command in a shell's text, quotes blanked out; else its own."""
    own = started(command)
    if text := shell_text(own):
        for part in re.split(r"[;&|()`\n]+", unquoted(text)):
            yield started(part.split())
    else:
        yield own


def shell_text(command: Sequence[str] | None) -> str:
    """The text behind `bash -c`, below a line `set …` with the shell's own options; "" for other commands."""
    if not command or program(command) not in _SHELLS:
        return ""
    at = next((i for i, word in enumerate(command) if re.fullmatch(r"-[A-Za-z]*c[A-Za-z]*", word)), len(command))
    text = next((i for i in range(at + 1, len(command)) if command[i] != "pipefail"), None)
    return f"set {' '.join(command[1:text])}\n{command[text]}" if text else ""


def unquoted(text: str) -> str:
    """The text with quotes and what a backslash hides blanked out in place, so that the signs left are the shell's."""
    return _QUOTED.sub(lambda found: (" " if found[0] == "\\\n" else "_") * len(found[0]), text)
