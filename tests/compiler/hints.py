"""Convert the hints in diagnostics to commands.

A hint that begins with words of the command line must fix the error when these words are added to the wrong command, or
replace the word that caused the error. If several diagnostics have the same code, all their hints are followed. Hints
in prose are left to human readers.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence

# Codes whose hints are not words of the command line.
PROSE = frozenset(
    re.findall(
        r"\S+",
        """
        JC1001 JC1002 JC1003 JC1004 JC1005 JC1006 JC1007 JC1008 JC1105 JC1106 JC1107 JC1108 JC1110 JC1114 JC1115 JC1116
        JC1131 JC1132 JC1134
        JC1201 JC1205 JC2012 JC2013 JC2019 JC2024 JC2032 JC2050 JC2066 JC3001 JC3002 JC3008 JC3009 JC3010
        JC3013 JC3014 JC3015 JC3016 JC3080 JC3081 JC3093 JC4002 JC4003 JC4004 JC4005 JC4006 JC4308 JC4330 JC4404
        JC4410 JC4502 JC4503 JC4507 JC4522 JC4523 JC4602 JC4706 JC4708 JC4709 JC4715 JC4716 JC4721 JC5001 JC5002
        JC5003 JC5005 JC5006 JC5009 JC5010 JC5011 JC5013 JC5014 JC5030 JC9001 JC9002 JC9003
        """,
    )
)
# Codes whose words are not enough, and what else must be done.
NOT_ALL = {
    "JC1117": "the words after -- go",
    "JC2014": "the words after -- go",
    "JC2068": "a key that the site requires is given then",
    "JC2090": "a model of one's own says the length of a sample",
    "JC3003": "the program reads the environment",
    "JC4515": "the value of the variable goes",
    "JC4516": "Kubernetes has another kind of secret, which the hint names as well",
    "JC4605": "a backend of hosts needs their names",
    "JC5008": "the folder of the runs is another one then",
}

# Text that ends a hint's first suggestion.
END = re.compile(r", | or |; | if | for |\?| \(| with | which | tells | shows | shares | instead of ")


def words_of(hint: str) -> list[str]:
    """Return the hint's first suggestion as words of the command line; [] if the hint is prose."""
    if in_file := re.match(r"set (\S+) to ", hint):  # the hint for a value in a file
        hint = f"{in_file[1]}={hint[in_file.end() :]}"
    try:
        words = shlex.split(END.split(hint.removeprefix("did you mean "))[0])
    except ValueError:
        return []
    if words[:1] == ["remove"] and words[1:2] not in (["it"], ["the"], ["one"], ["a"]):
        words[:1] = []
        words = [f"~{key_of(word)}" for word in words]
    is_line = bool(words) and (words[0] == "jobc" or all(re.match(r"[~+]*[\w./@-]+=|~\w|--?[a-z]", w) for w in words))
    return words if is_line else []


def key_of(word: str) -> str:
    return word.lstrip("~+").split("=")[0]


def mended(words: Sequence[str], new: Sequence[str], blamed: str = "") -> list[str]:
    """Return the command with the new words. words: the command without `jobc`. Words with the same key as a new word
    are removed, and so is the blamed word.
    """
    if new[0] == "jobc":
        return list(new[1:])
    at = words.index("--") if "--" in words else len(words)
    kept = [word for word in words[:at] if word != blamed and not any(_is_of(word, other) for other in new)]
    added = [word for word in new if not (word.startswith("~") and any(_is_of(other, word) for other in words[:at]))]
    return [*kept, *added, *words[at:]]


def _is_of(word: str, other: str) -> bool:
    """Return whether both words set the same key, or `other` removes a part or a parent of what `word` sets."""
    one, key = key_of(word), key_of(other)
    holds = "{" in word and key.startswith(f"{one}.")
    return one == key or (other.startswith("~") and (one.startswith(f"{key}.") or holds))


def findings(said: str, code: str) -> Iterator[tuple[str, str]]:
    """Yield (blamed word, hint) for each diagnostic with this code."""
    for text in said.split("\n\n"):
        if f"[{code} " in text and (hint := re.search(r"= hint: (.*)", text)):
            blamed = re.search(r"--> command line: (.*?)(?:   \(|$)", text, re.MULTILINE)
            yield (blamed[1].strip() if blamed else ""), hint[1]


def followed(commands: Sequence[str], code: str, said: str) -> list[list[str]]:
    """Return the last of `commands` after following the hints: with the hints' words added, and with the blamed words
    replaced.
    """
    last = shlex.split(commands[-1], comments=True)[1:]
    beside, instead = last, last
    for blamed, hint in findings(said, code):
        beside, instead = mended(beside, words_of(hint)), mended(instead, words_of(hint), blamed)
    return [beside, instead]


def is_prose(said: str, code: str) -> bool:
    return not all(words_of(hint) for _, hint in findings(said, code)) or not list(findings(said, code))


def hint_of(said: str, code: str) -> str:
    """Return the hint of the only warning, which must have this code."""
    assert said.count("warning[") == 1 and f"[{code} " in said, said
    return said.partition("= hint: ")[2].splitlines()[0]
