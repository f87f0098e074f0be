"""Diagnostics: every message's code, severity, position, reason and hint.

A user's mistake is a `Diagnostic`, collected and reported together; `CompileError` carries them to the command line.
Code ranges: JC1xxx for reading and types, JC2xxx for an inconsistent job, JC30xx for a job that is consistent but would
fail, JC4xxx for backends, JC5xxx for writing and artifacts, JC9xxx for bugs in jobc. Plugins use their own prefix.

An error means that the artifact would be wrong or that a site forbids the job, so it cannot be suppressed unless it is
a guess (judgment). A warning means that the job will probably fail or waste GPUs; a note means that something is
ignored. Warnings and notes can be allowed (suppressions.py).
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from enum import Enum
from types import MappingProxyType

from ...runtime.system.frozen_dataclass import dataclass
from .origin import Origin, escape_to_one_line
from .snippet import source_line_with_caret


class Severity(str, Enum):
    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True)
class Diagnostic:
    """One error, warning or note.

    title:   what is wrong, lower case, no full stop.
    origin:  the position of the value that causes the problem, if there is one.
    key:     the spec key that the diagnostic is about, or "" if there is none.
    because: why it cannot work, in one sentence.
    hint:    what to type instead; it must compile.
    private: whether the value may be a secret. If so, the command-line word is not repeated.
    judgment: whether the error is based on a guess, so that the user can allow it.
    policy:  the site policy that reports it, or "" if jobc or a backend does.
    points:  affected sweep points, as typed, or () without a sweep.
    otherwise: points with the same problem whose text contains different numbers.
    allowed: the reason in an allow comment, or "". An allowed diagnostic does not count, and only machine-readable
    formats include it.
    """

    code: str
    title: str
    because: str = ""
    hint: str = ""
    origin: Origin | None = None
    key: str = ""
    severity: Severity = Severity.ERROR
    private: bool = False
    judgment: bool = False
    policy: str = ""
    points: tuple[str, ...] = ()
    otherwise: tuple[str, ...] = ()
    allowed: str = ""

    @property
    def hint_for_place(self) -> str:
        """Return the hint. If the value is in a file of the user, overrides in the hint become instructions."""
        return hint_for_file(self.hint) if self.origin and self.origin.is_user_file else self.hint

    def sort_key(self) -> tuple[str, int, int, str, str, str]:
        origin = self.origin or Origin("", "")
        return (f"{origin.root}:{origin.path}", origin.line, origin.column, self.code, self.key, self.title)


class CompileError(Exception):
    """Raised when the compile cannot continue. Carries the diagnostics."""

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics = tuple(diagnostics)
        super().__init__("\n".join(f"{d.code}: {d.title}" for d in self.diagnostics))


def has_errors(diagnostics: Iterable[Diagnostic]) -> bool:
    return any(d.severity is Severity.ERROR and not d.allowed for d in diagnostics)


def merge_equal_diagnostics(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Merge equal diagnostics: keep the text of the first one, and list all points. Sort the result by position."""
    by_content: dict[Diagnostic, Diagnostic] = {}
    for d in diagnostics:
        bare = replace(d, points=(), otherwise=())
        by_content[bare] = _merge_points(by_content.get(bare, bare), d, d.otherwise)
    groups: dict[Diagnostic, list[Diagnostic]] = {}
    for d in by_content.values():
        group = groups.setdefault(_without_numbers(d), [])
        apart = (n for n, candidate in enumerate(group) if d.points and not {*candidate.points} & {*d.points})
        index = next(apart, None)
        if index is None:  # two equal diagnostics at the same point are two problems
            group.append(d)
        else:
            group[index] = _merge_points(group[index], d, d.points)
    return sorted((d for group in groups.values() for d in group), key=Diagnostic.sort_key)


def _merge_points(d: Diagnostic, more: Diagnostic, otherwise: Iterable[str]) -> Diagnostic:
    """Return d with the points of `more` added. otherwise: the added points whose text has different numbers"""
    points = tuple(dict.fromkeys((*d.points, *more.points)))
    return replace(d, points=points, otherwise=tuple(dict.fromkeys((*d.otherwise, *otherwise))))


_NUMBER = re.compile(r"(?<![\w.])\d+(?:[.,]\d+)*(?:(?:, | or )\d+(?:[.,]\d+)*)*")


def _without_numbers(d: Diagnostic) -> Diagnostic:
    """Return the message without numbers and plurals, so that points with the same problem compare equal."""

    def strip(text: str) -> str:
        return re.sub(r"# (\w+?)s\b", r"# \1", _NUMBER.sub("#", text))

    return replace(d, title=strip(d.title), because=strip(d.because), hint=strip(d.hint), points=(), otherwise=())


def describe_sweep_points(d: Diagnostic) -> str:
    """Return `nodes=2, with different numbers at nodes=3, nodes=4`, or "" without a sweep."""
    alike = ", ".join(point for point in d.points if point not in d.otherwise)
    return f"{alike}, with different numbers at {', '.join(d.otherwise)}" if d.otherwise else alike


def nearest(word: str, known: Iterable[str], limit: int = 3) -> list[str]:
    """Return the known words most similar to `word`, best first; empty if none is close."""
    import difflib  # imported here, because most compiles need no suggestion

    def similarity(key: str) -> float:
        """Return how similar the keys are without the sections they share, or how similar their last parts are,
        whichever is more; the second counts slightly less. This makes `step` more similar to loop.steps than to site.
        """
        ends = difflib.SequenceMatcher(None, key.rsplit(".", 1)[-1], word.rsplit(".", 1)[-1]).ratio()
        key_tail, word_tail = key, word
        while "." in key_tail and "." in word_tail and key_tail.partition(".")[0] == word_tail.partition(".")[0]:
            key_tail, word_tail = key_tail.partition(".")[2], word_tail.partition(".")[2]
        ratio = difflib.SequenceMatcher(None, key_tail, word_tail).ratio()
        return max(ratio + 0.1 if ratio >= 0.6 else 0, ends if ends >= 0.8 else 0)

    scores = {key: similarity(key) for key in known}
    return sorted((key for key in scores if scores[key]), key=lambda key: (-scores[key], key))[:limit]


_START = r"(?:^|(?<=; )|(?<=, )|(?<= or ))"  # of a clause
_OVERRIDE = r"(?:'[a-z][\w.]*=[^']*'|[a-z][\w.]*=(?:\[[^\]]*\]|[^\s,;])*)"
_OVERRIDES = re.compile(rf"{_START}{_OVERRIDE}(?: {_OVERRIDE})*(?=[,;]|\s|$)")
_GROUPS = (  # a file sets them in its defaults list
    "model", "data", "loss", "optim", "parallel", "code", "python", "container", "caches", "network", "backend",
    "task", "cluster", "experiment",
)  # fmt: skip


def hint_for_file(hint: str) -> str:
    """Return a hint for a value in a YAML file: `nodes=2` becomes `set nodes to 2`, and `-- train.py` a command."""

    def to_instruction(match: re.Match[str]) -> str:
        words = [word.strip("'").partition("=") for word in re.findall(_OVERRIDE, match[0])]
        if any(key in _GROUPS for key, _, _ in words):
            return match[0]
        return f"set {' and '.join(f'{key} to {value}' for key, _, value in words)}"

    hint = _OVERRIDES.sub(to_instruction, hint)
    if first := re.match(r"set (\S+) to ", hint):  # `set time to 12m or 12s`
        hint = first[0] + re.sub(rf"(,| or) set {re.escape(first[1])} to ", r"\1 ", hint[first.end() :])
    hint = re.sub(rf"{_START}~(?=\w)", "remove ", hint)
    return re.sub(rf"{_START}-- ", "write command with these words: ", hint)


def join_with_or(values: Iterable[str]) -> str:
    """Return `a`, `a or b` or `a, b or c`."""
    *first, last = values
    return f"{', '.join(first)} or {last}" if first else last


_LONGEST = 500
_COLOURS = {Severity.ERROR: "31", Severity.WARNING: "33", Severity.NOTE: "36"}


def format_for_terminal(
    diagnostics: Iterable[Diagnostic],
    colour: bool = False,
    texts: Mapping[str, str] = MappingProxyType({}),
    name_of: Callable[[str], str] = lambda code: "",
) -> str:
    """Format diagnostics for a terminal, sorted by position and separated by blank lines. Allowed ones are omitted.

    texts: `ROOT:PATH` -> text of each file that a position refers to, needed to print the line and its caret.
    name_of: returns the name to print next to a code, or "" for the code alone.
    """

    def colorize(text: str, style: str) -> str:
        return f"\x1b[{style}m{text}\x1b[0m" if colour else text

    blocks = []
    shown = merge_equal_diagnostics(d for d in diagnostics if not d.allowed)
    secret = {(d.origin.root, d.origin.path, d.origin.line) for d in shown if d.private and d.origin}
    for d in shown:
        head = colorize(f"{d.severity.value}[{f'{d.code} {name_of(d.code)}'.strip()}]", f"1;{_COLOURS[d.severity]}")
        lines = [f"{head}: {colorize(_one_line(d.title), '1')}"]
        is_default = d.origin is not None and d.origin.root == "jobc" and not d.key.endswith(".kind")
        key = f"   ({'default of ' * is_default}{_one_line(d.key)})" if d.key else ""
        if d.origin:
            lines.append(f"  --> {_one_line(str(d.origin))}{key}")
            if not d.private and (d.origin.root, d.origin.path, d.origin.line) not in secret:
                lines += source_line_with_caret(d.origin, f"  --> {d.origin.root}: ", texts)
        elif d.key:
            lines.append(f"  --> {_one_line(d.key)}")
        if d.because:
            lines.append(f"  = because: {_one_line(d.because)}")
        if d.hint:
            lines.append(f"  = hint: {_one_line(d.hint_for_place)}")
        if d.points:
            lines.append(f"  = points: {_one_line(describe_sweep_points(d))}")
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def _one_line(text: str) -> str:
    """Return user text shortened and escaped, so that it cannot flood the screen or control the terminal."""
    shown = escape_to_one_line(text)
    return shown if len(shown) <= _LONGEST else f"{shown[: _LONGEST - 40]} … {shown[-30:]}"
