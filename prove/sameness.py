"""By which rule a mutant means what the file meant before. Each is one that can be proved; none names a line.

In   the files of a golden, the path of one, its lines as a mutant, and what a start of the original executes (a trace)
Out  the rule, "" when there is none
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from jobc.compiler.backend import VERBS
from jobc.compiler.equivalence.check import check
from jobc.compiler.equivalence.scripts import library

SCRIPTS = (".sh", ".sbatch")

SAME = ("same order", "same words", "waits longer", "same commands")  # answers that set a mutant apart


def same_meaning(files: Mapping[str, str], path: str, lines: Sequence[str], trace: Path) -> str:
    """By which rule a mutant means what the file meant before; "" when by none.

    trace: what the starts of the original execute, as reached() left it
    """
    before = files[path].split("\n")
    at = next(i for i, (a, b) in enumerate(zip(before, [*lines, ""], strict=False)) if a != b)
    if (
        len(lines) == len(before)
        and lines[at : at + 2] == before[at : at + 2][::-1]
        and _commute(path, *lines[at : at + 2])
    ):
        return "same order"
    line = before[at]
    if path.endswith(SCRIPTS) and len(lines) == len(before):
        if _same_words(path, before, at, lines[at], files):
            return "same words"
        if _waits_longer(line, lines[at]):
            return "waits longer"
    if not path.endswith(SCRIPTS) or len(lines) != len(before) or re.search(r"\|\||&&|\bif\b|;;|\btrap\b", line):
        return ""
    if re.findall(r"\d*[<>]+&?\S*", line) != re.findall(r"\d*[<>]+&?\S*", lines[at]):  # a trace has no redirections
        return ""
    commands = _commands(trace, files)
    if not any(where == (path, at + 1) for where, _ in commands):
        return ""
    mutant = trace.with_name("trace_of_mutant")
    mutant.unlink(missing_ok=True)
    check({**files, path: "\n".join(lines)}, mutant)
    return "same commands" if commands == _commands(mutant, files) else ""


def _commute(path: str, one: str, other: str) -> bool:
    """Values of their own, options of one array, arms of other words, files of a ConfigMap: any order will do."""
    if path == "kustomization.yaml":
        return one.startswith('  - "') and other.startswith('  - "')
    one, other = (re.sub(r" # .*$", "", line) for line in (one, other))
    sets = [re.fullmatch(r"\s*(?:export |local )?(\w+)=[^`(]*", line) for line in (one, other)]
    if sets[0] and sets[1] and not re.search(rf"\b{sets[0][1]}\b", other) and not re.search(rf"\b{sets[1][1]}\b", one):
        return True
    for form in (
        r"\s*(--[\w-]+)(?:=(?:\"[^\"]*\"|\S*))?(?: \\\\)?",
        r"\s*(-[\w-]+(?: \| -[\w-]+)*)\) .* ;;",
    ):
        names = [found[1] for line in (one, other) if (found := re.fullmatch(form, line))]
        if len(set(names)) == 2:
            return True
    return False


def _commands(trace: Path, files: Mapping[str, str]) -> list[tuple[tuple[str, int], str]]:
    """((script, line), command as executed) of the emitted scripts; names of temporary folders are left out."""
    text = trace.read_text(errors="replace") if trace.exists() else ""
    found = re.findall(r"^\++([\w.]+):(\d+): (.*)$", text, re.MULTILINE)
    said = ((name, int(line), command) for name, line, command in found if name in files)
    return [((name, line), re.sub(r"jobc-stage-\w+", "STAGE", command)) for name, line, command in said]


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


def _same_words(path: str, before: Sequence[str], at: int, after: str, files: Mapping[str, str]) -> bool:
    """Quotes around what bash neither splits nor expands further: plain text, numbers, literals of this job.

    Or around plain words of `echo`, which puts one blank between them again.
    """
    line = before[at]
    found = re.search(r"\"([^\"]*)\"|'([^']*)'", line)
    code = [re.sub(r"(^| +)# .*$", "", text) for text in [*before[:at], line]]
    if found is None or any(text.count("'") % 2 or text.count('"') % 2 for text in code):
        return False  # no quotes, or text of several lines: who knows which quote opens
    inner = found[1] if found[1] is not None else found[2]
    around = line[max(0, found.start() - 1) : found.start()] + line[found.end() : found.end() + 1]
    if after != line[: found.start()] + inner + line[found.end() :] or re.search(r"[{},@!*?+]", around):
        return False
    if re.match(r"\s*(.* )?echo $", line[: found.start()]) and not line[found.end() :].strip("; fi"):
        return bool(re.fullmatch(r"[A-Za-z]\w*( [\w.:,/]+)*", inner))
    plain = re.sub(r"\$\{?(\w+)\}?", lambda m: "1" if _is_plain(m[1], path, before, at, files) else "$", inner)
    return bool(re.fullmatch(r"[\w./:=@%+,-]+", plain if found[1] is not None else inner))


# What is one plain word, wherever it stands.
PLAIN = r"\$!|\$\?|\$#|\d+|\$\(\([^()]*\)\)|'?[\w./:@%+,-]+'?"


def _is_plain(name: str, path: str, lines: Sequence[str], at: int, files: Mapping[str, str]) -> bool:
    """The variable has a plain value wherever the script sets it, and has one before this line.

    A function of another file may set it only for itself (local).
    """
    own = "\n".join(lines)
    values = re.findall(rf"(?:^|[\s;&({{])(?:export |local )?{name}=(\S*)", own, re.MULTILINE)
    if re.search(rf"\b(?:for|read|mapfile|printf -v|local)\b[^\n;=]*\b{name}\b(?!=)", own):
        return False
    sourced = [text for other, text in files.items() if other.endswith(SCRIPTS) and other not in (*VERBS, path)]
    for body in re.findall(r"^\w+\(\) [{(]\n(.*?)^[})]", library()[2] + "\n".join(sourced), re.MULTILINE | re.DOTALL):
        is_set = re.search(rf"(?:^|\s){name}=|\bread\b[^\n]* {name}\b", body)
        if is_set and not re.search(rf"\blocal\b.*\b{name}\b", body):
            return False
    indent = len(lines[at]) - len(lines[at].lstrip())
    earlier = any(re.match(rf" {{0,{indent}}}(?:export )?{name}=\S", line) for line in lines[:at])
    return bool(values) and earlier and all(re.fullmatch(PLAIN, value.rstrip(";")) for value in values)
