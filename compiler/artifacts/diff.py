"""Compare two artifacts: first their meaning, then their records, then their files.

In   two mappings of path -> text, of compiled or of written directories
Out  Comparison
Differences that the reader of a file ignores, such as comments and key order, do not count (as_read.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from ..emit.line_diff import opcodes
from ..plan import flat_text
from ..untrusted_files import Unreadable
from .normalize import as_read

PLAN, IDENTITY, SPEC = ".jobc/plan.txt", ".jobc/identity.txt", ".jobc/spec.txt"
RECORDS = (PLAN, IDENTITY, SPEC)  # made from all that a job is, and worth nothing when somebody edits them


class Absent(Enum):
    """The key is not there on that side; null is a value."""

    ABSENT = "(not there)"


ABSENT = Absent.ABSENT


class DamagedRecord(ValueError):
    """A record of an artifact is missing, or is not one that this jobc writes."""


@dataclass(frozen=True)
class Change:
    """A key whose value differs. Values are JSON-able, or ABSENT."""

    key: str
    before: Any
    after: Any


@dataclass(frozen=True)
class FileChange:
    """lines: how many lines only one side has, as a measure of the change; 0 for other kinds."""

    path: str
    kind: str  # changed | only in a | executable only in a | a link only in a | the same of b
    lines: int


@dataclass(frozen=True)
class Side:
    """name: for people; files: path -> text of every file of an artifact; executable, links: paths."""

    name: str
    files: Mapping[str, str]
    executable: frozenset[str]
    links: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Comparison:
    """meaning: leaves of the plan; spec: keys of the job; breaks_resume: those that make it another run (D10)."""

    meaning: tuple[Change, ...]
    spec: tuple[Change, ...]
    breaks_resume: tuple[str, ...]
    files: tuple[FileChange, ...]

    @property
    def differs(self) -> bool:
        return bool(self.meaning or self.spec or self.files)


def compare(left: Side, right: Side) -> Comparison:
    """Raises DamagedRecord."""
    a, b = left.files, right.files
    identity = _changes(_record(a, IDENTITY), _record(b, IDENTITY))
    return Comparison(
        meaning=tuple(_changes(_record(a, PLAN), _record(b, PLAN))),
        spec=tuple(_changes(_spec(a), _spec(b))),
        breaks_resume=tuple(change.key for change in identity),
        files=tuple(_files(left, right)),
    )


def _changes(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[Change]:
    pairs_of = ((key, a.get(key, ABSENT), b.get(key, ABSENT)) for key in sorted(a.keys() | b.keys()))
    changes = [Change(key, before, after) for key, before, after in pairs_of if before != after]
    return [change for change in changes if not (_is_empty_mapping(change) and _has_below(change.key, changes))]


def _is_empty_mapping(change: Change) -> bool:
    return {} in (change.before, change.after) and ABSENT in (change.before, change.after)


def _has_below(key: str, changes: list[Change]) -> bool:
    """Return whether a removed mapping is reported key by key."""
    return any(change.key.startswith(f"{key}.") for change in changes)


def _spec(files: Mapping[str, str]) -> dict[str, Any]:
    """Keys of the job: null for what is derived."""
    return {**_record(files, IDENTITY), **_record(files, SPEC), "backend": _record(files, PLAN).get("backend.name")}


def _record(files: Mapping[str, str], path: str) -> dict[str, Any]:
    if path not in files:
        raise DamagedRecord(f"{path} is missing")
    try:
        return flat_text.read(files[path])
    except Unreadable:
        raise DamagedRecord(f"{path} is not a list of `key = JSON value` lines") from None


def made(files: Mapping[str, str]) -> dict[str, str]:
    """Without those below .jobc/, which are about the rest."""
    return {path: text for path, text in files.items() if not path.startswith(".jobc/")}


def _files(left: Side, right: Side) -> Iterator[FileChange]:
    a, b = made(left.files), made(right.files)
    for path in sorted(a.keys() | b.keys()):
        if path not in b or path not in a:
            yield FileChange(path, "only in a" if path in a else "only in b", 0)
        elif a[path] != b[path] and (lines := _different_lines(path, a[path], b[path])):
            yield FileChange(path, "changed", lines)
        for property_name, in_a, in_b in (
            ("executable", left.executable, right.executable),
            ("a link", left.links, right.links),
        ):
            if path in a and path in b and (path in in_a) != (path in in_b):
                yield FileChange(path, f"{property_name} only in {'a' if path in in_a else 'b'}", 0)


def _different_lines(path: str, a: str, b: str) -> int:
    lines_a, lines_b = as_read(path, a), as_read(path, b)
    if lines_a is None or lines_b is None:
        lines_a, lines_b = a.split("\n"), b.split("\n")
    equal_count = sum(end - begin for kind, begin, end, _, _ in opcodes(lines_a, lines_b) if kind == "equal")
    return max(len(lines_a), len(lines_b)) - equal_count
