"""Rules that prove a mutant equivalent to the original file. None names a line.

In   the files of a golden, the path of one, and its lines as a mutant
Out  the rule, "" when there is none
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import yaml

from jobc.compiler.artifacts.bash_syntax import statements
from jobc.compiler.plugins.backend import VERBS

SCRIPTS = (".sh", ".sbatch")
LIBRARY = Path(__file__).resolve().parent.parent / "trainer" / "rt"

SAME = (
    "same order",
    "same statements",
    "same words",
    "waits longer",
)  # answers that set a mutant apart


def same_meaning(files: Mapping[str, str], path: str, lines: Sequence[str]) -> str:
    """Return the rule that proves a mutant equivalent; "" if none does."""
    before = files[path].split("\n")
    index = next(i for i, (a, b) in enumerate(zip(before, [*lines, ""], strict=False)) if a != b)
    if (
        len(lines) == len(before)
        and lines[index : index + 2] == before[index : index + 2][::-1]
        and _commute(path, *lines[index : index + 2])
    ):
        return "same order"
    line = before[index]
    if path.endswith(SCRIPTS) and len(lines) == len(before):
        if _prints_alike(files[path], "\n".join(lines)):
            return "same statements"
        text = Unquoted.of(before, index, lines[index])
        if text and (_same_words(text, path, before, index, files) or _same_value(text)):
            return "same words"
        if _waits_longer(line, lines[index]):
            return "waits longer"
    return ""


SIMPLE = r"\$\((?:uname|basename|dirname|id|date|printf|key(?:_word|_number)?) [^()]*\)"  # cannot fail


def _commute(path: str, one: str, other: str) -> bool:
    """Values of their own, questions of which one holds, options, arms of other words, files: any order will do."""
    if path == "kustomization.yaml":
        return one.startswith('  - "') and other.startswith('  - "')
    one, other = (re.sub(r" # .*$", "", line) for line in (one, other))
    forgets = [re.fullmatch(r"\s*unset((?: \w+| \"\$\{!\w+@\}\")+)", line) for line in (one, other)]
    if any(forgets) and _keeps(forgets[0], other) and _keeps(forgets[1], one):
        return True
    values = (
        rf"\s*(?:export |local )?(\w+)\+?=(?:(?!\()(?:[^`(]|{SIMPLE}|\$\(\([^()]*\)\))*|\((?:[^`()]|{SIMPLE})*\))"
        r"|\s*(?:export|unset) (\w+)"
    )
    sets = [match and (match[1] or match[2]) for match in (re.fullmatch(values, line) for line in (one, other))]
    if sets[0] and sets[1] and not re.search(rf"\b{sets[0]}\b", other) and not re.search(rf"\b{sets[1]}\b", one):
        return True
    asks = [re.fullmatch(r"\s*if \[\[ \$(\w+) == (\w+) \]\]; then [\w ]*; fi", line) for line in (one, other)]
    if asks[0] and asks[1] and asks[0][1] == asks[1][1] and asks[0][2] != asks[1][2]:  # one of them at most
        return True
    word = r"(?:\"[^\"]*\"|'[^']*'|[^\s\"']+)"
    options = [re.fullmatch(rf"\s*(--mca \w+|-o \w+|--[\w-]+)(?:[= ]{word})?(?: \\\\)?", line) for line in (one, other)]
    if options[0] and options[1] and options[0][1] != options[1][1]:
        return True
    arms = [re.fullmatch(r"\s*([\w.-]+(?: \| [\w.-]+)*)\) .* ;;", line) for line in (one, other)]
    return bool(arms[0] and arms[1] and not {*arms[0][1].split(" | ")} & {*arms[1][1].split(" | ")})


def _keeps(forgets: re.Match[str] | None, line: str) -> bool:
    """A value, or another unset, that has nothing of what one forgets: names, and what begins with some letters."""
    if forgets is None:
        return True
    names = [re.sub(r"\W", "", word) + ("" if "!" in word else r"\b") for word in forgets[1].split()]
    is_plain = re.fullmatch(r"\s*(?:unset .*|(?:export |local )?\w+=[^`(]*)", line)
    return bool(is_plain) and (" unset " in f" {line}" or not any(re.search(rf"\b{name}", line) for name in names))


def _prints_alike(before: str, after: str) -> bool:
    """Return whether bash runs the same script, with a different comment. Lines of #SBATCH are Slurm's."""
    parsed = [(statements(text), re.findall(r"^#SBATCH.*", text, re.MULTILINE)) for text in (before, after)]
    return parsed[0][0] is not None and parsed[0] == parsed[1]


def same_data(path: str, before: str, after: str) -> bool:
    """Quotes and the order of keys mean nothing in data."""
    if not path.endswith((".yaml", ".json")):
        return False
    try:
        return list(yaml.load_all(before, yaml.CSafeLoader)) == list(yaml.load_all(after, yaml.CSafeLoader))
    except yaml.YAMLError:
        return False


def _waits_longer(line: str, other: str) -> bool:
    """A loop that looks again after N seconds does so after N + 1."""
    return bool(re.fullmatch(r"\s+sleep \d+", line) and re.fullmatch(r"\s+sleep \d+", other))


def open_quote(lines: Sequence[str]) -> str:
    """The quote that is open behind these lines of bash: ' or ", "" for none. A here-document counts as text."""
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
    """A line that lost its first pair of quotes. before, after: what stands beside them; is_double: the kind."""

    before: str
    inner: str
    after: str
    is_double: bool

    @classmethod
    def of(cls, lines: Sequence[str], at: int, other: str) -> Unquoted | None:
        """Return the change of a line; None if other parts changed, or if multi-line text makes quoting unclear."""
        line = lines[at]
        match = re.search(r"\"([^\"]*)\"|'([^']*)'", line)
        if match is None or open_quote(lines[:at]) or open_quote(lines[: at + 1]):
            return None
        unquoted = cls(line[: match.start()], match[1] or match[2] or "", line[match.end() :], match[1] is not None)
        return unquoted if other == unquoted.before + unquoted.inner + unquoted.after else None


def _same_words(text: Unquoted, path: str, before: Sequence[str], at: int, files: Mapping[str, str]) -> bool:
    """Quotes around what bash neither splits nor expands further: plain text, numbers, literals of this job.

    Or around plain words and numbers of `echo`, which puts one blank between them again.
    """
    if re.search(r"[{},@!*?+]", text.before[-1:] + text.after[:1]):
        return False
    if re.match(r"\s*(.* )?echo $", text.before) and not text.after.strip("; fi"):
        return bool(re.fullmatch(r"[A-Za-z]\w*( ([\w.:,/]+|\$\(\([^()]*\)\)))*", text.inner))
    if not text.inner and re.search(r"[\w=]$", text.before):  # nothing, in a word that is not empty without it
        return True
    plain = text.inner
    if text.is_double:
        plain = re.sub(r"\$\(\([^()]*\)\)", "1", plain)
        plain = re.sub(r"\$\{?(\w+)\}?", lambda m: "1" if _is_plain(m[1], path, before, at, files) else "$", plain)
    return bool(re.fullmatch(r"[\w./:=@%+,^-]+", plain))


def _same_value(text: Unquoted) -> bool:
    """Quotes around all of a value that is assigned: there bash neither splits words nor expands names of files."""
    begins = rf"(?:^|[;&|({{] *|\b(?:then|do|else) )\s*(?:(?:export|local) )?(?:\w+={VALUE} )*\w+=$"
    if not re.search(begins, text.before) or not re.match(r"$|[ ;)]", text.after):
        return False
    return bool(re.fullmatch(VALUE if text.is_double else r"[\w./=%+,-]*", text.inner))


@cache
def _library() -> str:
    """The shell functions that every artifact brings along."""
    return "\n".join(file.read_text(encoding="utf-8") for file in sorted(LIBRARY.glob("*.sh")))


# What may be assigned without quotes: plain signs, and expansions that hold no quotes of their own.
VALUE = r"(?:[\w./=%+,-]|\$\w+|\$[?!#$]|\$\{[^{}\"'~@]*\}|\$\(\([^()]*\)\))*"
# What is one plain word, wherever it stands.
PLAIN = r"\$!|\$\?|\$#|\d+|\$\(\([^()]*\)\)|'?[\w./:@%+,-]+'?"


def _is_plain(name: str, path: str, lines: Sequence[str], at: int, files: Mapping[str, str]) -> bool:
    """The variable has a plain value wherever the script sets it, and has one before this line.

    A function of another file may set it only for itself (local).
    """
    script = "\n".join(lines)
    set_to = rf"(?:^|[\s;&({{])(?:export |local )?{name}=(\S*)"
    values = re.findall(set_to, script, re.MULTILINE)
    if re.search(rf"\b(?:for|read|mapfile|printf -v|local)\b[^\n;=]*\b{name}\b(?!=)", script):
        return False
    sourced = [
        text for file_path, text in files.items() if file_path.endswith(SCRIPTS) and file_path not in (*VERBS, path)
    ]
    for body in re.findall(r"^\w+\(\) [{(]\n(.*?)^[})]", _library() + "\n".join(sourced), re.MULTILINE | re.DOTALL):
        is_set = re.search(rf"(?:^|\s){name}=|\bread\b[^\n]* {name}\b", body)
        if is_set and not re.search(rf"\blocal\b.*\b{name}\b", body):
            return False
    indent = len(lines[at]) - len(lines[at].lstrip())
    earlier = [n for n in range(at) if re.match(rf" {{0,{indent}}}(?:export )?{name}=\S", lines[n])]
    if earlier and lines[earlier[-1]].strip() != f"{name}=''":  # what was nothing before that has a value now
        values = [*(v for n in range(earlier[-1]) for v in re.findall(set_to, lines[n]) if v != "''"),
                  *re.findall(set_to, "\n".join(lines[earlier[-1]:]), re.MULTILINE)]  # fmt: skip
    return bool(values and earlier) and all(re.fullmatch(PLAIN, value.rstrip(";")) for value in values)
