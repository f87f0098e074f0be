"""Rules that prove a mutant equivalent to the original file. No rule names a specific line.

In   the path of a golden's file, its lines, and its lines as a mutant
Out  the rule, or "" if there is none
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import yaml

from jobc.compiler.bash_syntax import normalized_statements

SCRIPTS = (".sh", ".sbatch")

SAME = ("same order", "same statements", "same words")  # rules by which a mutant is excluded


def same_meaning(path: str, before: Sequence[str], lines: Sequence[str]) -> str:
    """Return the rule that proves a mutant equivalent, or "" if none does."""
    index = next(i for i, (a, b) in enumerate(zip(before, [*lines, ""], strict=False)) if a != b)
    if len(lines) != len(before):
        return ""
    if lines[index : index + 2] == before[index : index + 2][::-1] and _commute(path, *lines[index : index + 2]):
        return "same order"
    if path.endswith(SCRIPTS):
        if _prints_alike("\n".join(before), "\n".join(lines)):
            return "same statements"
        text = Unquoted.of(before, index, lines[index])
        if text and _same_words(text):
            return "same words"
    return ""


def _commute(path: str, one: str, other: str) -> bool:
    """Return whether two lines may be swapped: assignments that do not refer to each other, or different options."""
    one, other = (re.sub(r" # .*$", "", line) for line in (one, other))
    sets = [re.fullmatch(r"\s*(?:export )?(\w+)=[^`(]*", line) for line in (one, other)]
    if sets[0] and sets[1]:
        return not re.search(rf"\b{sets[0][1]}\b", other) and not re.search(rf"\b{sets[1][1]}\b", one)
    word = r"(?:\"[^\"]*\"|'[^']*'|[^\s\"']+)"
    options = [re.fullmatch(rf"\s*(--[\w-]+)(?:[= ]{word})?(?: \\)?", line) for line in (one, other)]
    return bool(options[0] and options[1] and options[0][1] != options[1][1])


def _prints_alike(before: str, after: str) -> bool:
    """Return whether bash runs the same script, so that only comments differ. #SBATCH lines must match as well."""
    parsed = [(normalized_statements(text), re.findall(r"^#SBATCH.*", text, re.MULTILINE)) for text in (before, after)]
    return parsed[0][0] is not None and parsed[0] == parsed[1]


def same_data(path: str, before: str, after: str) -> bool:
    """Return whether both are the same data, in which quotes and the order of keys do not matter."""
    if not path.endswith((".yaml", ".json")):
        return False
    try:
        return list(yaml.load_all(before, yaml.CSafeLoader)) == list(yaml.load_all(after, yaml.CSafeLoader))
    except yaml.YAMLError:
        return False


def open_quote(lines: Sequence[str]) -> str:
    """Return the quote that is open after these lines of bash: ' or ", or "" for none. A here-document is text."""
    quote, text = "", "\n".join(lines) + "\n"
    position = 0
    while position < len(text):
        sign = text[position]
        if quote == "'":
            quote = "" if sign == "'" else quote
        elif sign == "\\":
            position += 1
        elif quote == '"':
            quote = "" if sign == '"' else quote
        elif sign in "'\"":
            quote = sign
        elif sign == "#" and (position == 0 or text[position - 1] in " \n\t;"):
            position = text.index("\n", position)
        position += 1
    return quote


class Unquoted(NamedTuple):
    """A line that lost its first pair of quotes.

    before, after: the text before and after the quotes
    """

    before: str
    inner: str
    after: str

    @classmethod
    def of(cls, lines: Sequence[str], at: int, other: str) -> Unquoted | None:
        """Return the change of a line, or None if other parts changed, or if multi-line text makes quoting unclear."""
        line = lines[at]
        match = re.search(r"\"([^\"]*)\"|'([^']*)'", line)
        if match is None or open_quote(lines[:at]) or open_quote(lines[: at + 1]):
            return None
        unquoted = cls(line[: match.start()], match[1] or match[2] or "", line[match.end() :])
        return unquoted if other == unquoted.before + unquoted.inner + unquoted.after else None


def _same_words(text: Unquoted) -> bool:
    """Return whether the quotes surround text that bash neither splits nor expands.

    That is plain text, or empty text within a longer word.
    """
    if re.search(r"[{},@!*?+]", text.before[-1:] + text.after[:1]):
        return False
    if not text.inner:
        return bool(re.search(r"[\w=]$", text.before))
    return bool(re.fullmatch(r"[\w./:=@%+,^-]+", text.inner))
