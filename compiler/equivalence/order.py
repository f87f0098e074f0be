"""In which order a script sets its variables and reads them: one that is read first has no value, or an old one.

In   the lines of an emitted script, and the text of all others and of the library
Out  (number of the line, what is wrong)
Lines are taken in the order in which they stand; a loop or a function that is called later may only read what stands
above, or what it sets itself. Names that come from outside are in capitals, and not looked at.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

FUNCTION = re.compile(r"^(\w+)\(\) [({]( #.*)?$")
READ = re.compile(r"\$\{?#?([a-z_]\w*)(?!\w)(?!:?[-+])|\(\(\s*([a-z_]\w*) (?:[<>=!]=?|\+)")
SETS = re.compile(
    r"(?:^|[\s;({&|])(?:export |local |readonly )?([a-z_]\w*)(?:\[[^]]*\])?\+?="
    r"|\bfor \(*([a-z_]\w*)\b|\bprintf -v ([a-z_]\w*)|\bgetopts \S+ ([a-z_]\w*)"
)
TAKES = re.compile(r"\b(?:read|mapfile|readarray)\b((?: (?:-\w+|\"[^\"]*\"|'[^']*'|\$'[^']*'|[a-z_]\w*))*)")
LOCAL = re.compile(r"\blocal ((?:[a-z_]\w*(?:=(?:\$\(\([^()]*\)\)|\([^)]*\)|\"[^\"]*\"|'[^']*'|[^\s;])*)? ?)+)")


def read_too_early(lines: Sequence[str], everything: str, sourced: str) -> Iterator[tuple[int, str]]:
    """lines: those of comments empty; everything: also of the other scripts; sourced: what this one sources of them."""
    effects = _effects(everything)
    body: list[tuple[int, str]] = []
    alone: list[tuple[int, str]] = []
    inside = ""
    for number, line in enumerate(lines, 1):
        code = _code(line)
        if not inside and (found := FUNCTION.match(line)):
            inside, body = found[1], []
        elif inside and line in ("}", ")"):
            yield from _early_in_function(body, effects)
            inside = ""
        else:
            (body if inside else alone).append((number, code))
    there = {name for line in sourced.split("\n") if line[:1].strip() for name in _set_by(_code(line), {})}
    later = {name for _, line in alone for name in _set_by(line, effects)}
    yield from _early(alone, effects, frozenset(later - there))


def _early_in_function(
    body: Sequence[tuple[int, str]], effects: Mapping[str, frozenset[str]]
) -> Iterator[tuple[int, str]]:
    """Of the variables that it declares for itself."""
    own = {word for _, line in body for found in LOCAL.finditer(line) for word in _declared(found[1])}
    yield from _early(body, effects, frozenset(own))
    known: set[str] = set()
    for number, line in body:
        for found in LOCAL.finditer(line):
            for name in known.intersection(_declared(found[1])):
                yield number, f"{name} gets a value, and is made local after that"
        known |= _set_by(line, {})


def _early(
    lines: Sequence[tuple[int, str]], effects: Mapping[str, frozenset[str]], names: frozenset[str]
) -> Iterator[tuple[int, str]]:
    """names: of which a line is looked for that sets them before they are read."""
    known: set[str] = set()
    for number, line in lines:
        mine = _set_by(line, effects)
        for one, other in READ.findall(line):
            name = one or other
            if name in names - known - mine:
                yield number, f"{name} is read before anything sets it"
        known |= mine


def _declared(words: str) -> list[str]:
    """Of what stands behind `local`."""
    return re.findall(r"(?:^| )([a-z_]\w*)", re.sub(r"=(?:\$\(\([^()]*\)\)|\([^)]*\)|\"[^\"]*\"|\S*)", "=", words))


def _code(line: str) -> str:
    """Without comments, and without what stands in single quotes, for other shells and for awk."""
    return re.sub(r"'[^']*'", "''", re.sub(r"(?:^| )# .*$", "", line))


def _set_by(line: str, effects: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """Also by the functions that it calls; a `local` without a value sets nothing."""
    found = {name for names in SETS.findall(line) for name in names if name}
    found |= {word for words in TAKES.findall(line) for word in words.split() if re.fullmatch(r"[a-z_]\w*", word)}
    for word in set(re.findall(r"\w+", line)) & effects.keys():
        found |= effects[word]
    return frozenset(found)


@lru_cache(maxsize=2)  # that of one artifact is asked for by each of its scripts
def _effects(text: str) -> Mapping[str, frozenset[str]]:
    """function -> variables that are not its own and that it sets, or what it calls."""
    bodies: dict[str, str] = {}
    for name, body in re.findall(r"^(\w+)\(\) [({][^\n]*\n(.*?)^[})]", text, re.MULTILINE | re.DOTALL):
        bodies[name] = bodies.get(name, "") + body  # of an engine, and of the library whose place it takes
    sets: dict[str, frozenset[str]] = {}
    calls: dict[str, set[str]] = {}
    for name, body in bodies.items():
        lines = [_code(line) for line in body.split("\n")]
        own = {word for line in lines for found in LOCAL.finditer(line) for word in _declared(found[1])}
        sets[name] = frozenset(n for line in lines for n in _set_by(line, {})) - own
        calls[name] = set(re.findall(r"\w+", body)) & bodies.keys() - {name}
    for _ in range(6):  # as deep as they call one another
        sets = {name: mine.union(*(sets[other] for other in calls[name])) for name, mine in sets.items()}
    return sets
