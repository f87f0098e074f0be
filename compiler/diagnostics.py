"""Every message a user may see: code, severity, place, because, hint.

A user's mistake is a `Diagnostic`, collected and reported together; `CompileError` carries them to the command line.
Code ranges: JC1xxx reading and types, JC2xxx the job makes no sense, JC30xx it makes sense and would still fail, JC4xxx
backend, JC5xxx writing and artifacts, JC9xxx our bug. Plugins use their own letters.

An error means that the artifact would be wrong, or that a site forbids the job, so nothing suppresses it, unless it is
a judgment. A warning is about a job that probably fails or wastes its GPUs, a note about what was left out; both may be
allowed (levels.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from types import MappingProxyType

from .caret import under
from .text import Origin


class Severity(str, Enum):
    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True)
class Diagnostic:
    """One finding.

    title:   what is wrong, lower case, no full stop
    origin:  where it was written, when one place is to blame
    key:     the spec key concerned, "" when none
    because: why it cannot work; one sentence
    hint:    what to type instead; it compiles
    private: the value may be a secret, so the word of the command line is not repeated
    judgment: an error by the look of a value, which somebody may know better and allow
    policy:  the policy of a site that says it, "" of a rule of jobc or a backend
    points:  of a sweep, those that it hits, as typed; () without a sweep
    allowed: why somebody allows it; then it is counted nowhere, and only formats for machines show it
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
    allowed: str = ""

    def sort_key(self) -> tuple[str, int, int, str, str, str]:
        place = self.origin or Origin("", "")
        return (f"{place.root}:{place.path}", place.line, place.column, self.code, self.key, self.title)


class CompileError(Exception):
    """The compile cannot go on; the diagnostics say why."""

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics = tuple(diagnostics)
        super().__init__("\n".join(f"{d.code}: {d.title}" for d in self.diagnostics))


def has_errors(diagnostics: Iterable[Diagnostic]) -> bool:
    return any(d.severity is Severity.ERROR and not d.allowed for d in diagnostics)


def merged(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Each once, sorted by place, with all the points of a sweep that it hits."""
    points: dict[Diagnostic, dict[str, None]] = {}
    for d in diagnostics:
        points.setdefault(replace(d, points=()), {}).update(dict.fromkeys(d.points))
    found = [replace(d, points=tuple(hit)) for d, hit in points.items()]
    return sorted(found, key=Diagnostic.sort_key)


def nearest(word: str, known: Iterable[str], limit: int = 3) -> list[str]:
    """The known words most like `word`, best first; empty when none is close."""
    import difflib  # here, because most compiles need no suggestion

    def likeness(key: str) -> float:
        """Of the whole key, without the sections that both are in, or a little less for its last part: `step` is more
        like loop.steps than like site."""
        ends = difflib.SequenceMatcher(None, key.rsplit(".", 1)[-1], word.rsplit(".", 1)[-1]).ratio()
        own, other = key, word
        while "." in own and "." in other and own.partition(".")[0] == other.partition(".")[0]:
            own, other = own.partition(".")[2], other.partition(".")[2]
        whole = difflib.SequenceMatcher(None, own, other).ratio()
        return max(whole + 0.1 if whole >= 0.6 else 0, ends if ends >= 0.8 else 0)

    scores = {key: likeness(key) for key in known}
    return sorted((key for key in scores if scores[key]), key=lambda key: (-scores[key], key))[:limit]


def alternatives(values: Iterable[str]) -> str:
    """`a`, `a or b`, `a, b or c`."""
    *first, last = values
    return f"{', '.join(first)} or {last}" if first else last


_LONGEST = 500
_COLOURS = {Severity.ERROR: "31", Severity.WARNING: "33", Severity.NOTE: "36"}


def format_text(
    diagnostics: Iterable[Diagnostic], colour: bool = False, texts: Mapping[str, str] = MappingProxyType({})
) -> str:
    """The terminal form, sorted by place, one blank line between two, without those that are allowed.

    texts: `ROOT:PATH` -> text of the files that places are in, for the line with its caret
    """

    def paint(text: str, style: str) -> str:
        return f"\x1b[{style}m{text}\x1b[0m" if colour else text

    blocks = []
    shown = merged(d for d in diagnostics if not d.allowed)
    secret = {(d.origin.root, d.origin.path, d.origin.line) for d in shown if d.private and d.origin}
    for d in shown:
        head = paint(f"{d.severity.value}[{d.code}]", f"1;{_COLOURS[d.severity]}")
        lines = [f"{head}: {paint(_one_line(d.title), '1')}"]
        key = f"   ({_one_line(d.key)})" if d.key else ""
        if d.origin:
            lines.append(f"  --> {_one_line(str(d.origin))}{key}")
            if not d.private and (d.origin.root, d.origin.path, d.origin.line) not in secret:
                lines += under(d.origin, f"  --> {d.origin.root}: ", texts)
        elif d.key:
            lines.append(f"  --> {_one_line(d.key)}")
        if d.because:
            lines.append(f"  = because: {_one_line(d.because)}")
        if d.hint:
            lines.append(f"  = hint: {_one_line(d.hint)}")
        if d.points:
            lines.append(f"  = points: {_one_line(', '.join(d.points))}")
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def _one_line(text: str) -> str:
    """User text inside a message cannot break the line, flood the screen or drive the terminal."""
    shown = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
    return shown if len(shown) <= _LONGEST else f"{shown[: _LONGEST - 40]} … {shown[-30:]}"
