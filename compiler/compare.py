"""What two artifacts differ in: first what they mean, then what was said of them, then their files.

In   two mappings of path -> text, of compiled or of written directories, with what somebody's edits of them mean
Out  Comparison
What a file's reader makes nothing of, such as comments and the order of keys, is no difference (as_read.py).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import Enum
from typing import Any

from . import pairs
from .as_read import as_read
from .directory import SOURCE_MAP

PLAN, IDENTITY, FREE = ".jobc/plan.txt", ".jobc/identity.txt", ".jobc/free.txt"
RECORDS = (PLAN, IDENTITY, FREE, SOURCE_MAP)  # made from all that a job is, and worth nothing when somebody edits them


class Absent(Enum):
    """The key is not there on that side; null is a value."""

    ABSENT = "(not there)"


ABSENT = Absent.ABSENT


@dataclass(frozen=True)
class Change:
    """A key whose value differs. Values are JSON-able, or ABSENT."""

    key: str
    before: Any
    after: Any


@dataclass(frozen=True)
class FileChange:
    """lines: of either side that the other has not, for people to judge how much; 0 of the other kinds."""

    path: str
    kind: str  # changed | only in a | executable only in a | a link only in a | the same of b
    lines: int


@dataclass(frozen=True)
class Side:
    """name: for people; files: path -> text of every file of an artifact; executable, links: paths.

    by_hand: sentences, what its files say that its plan does not say, for somebody edited them
    """

    name: str
    files: Mapping[str, str]
    executable: frozenset[str]
    links: frozenset[str] = frozenset()
    by_hand: tuple[str, ...] = ()


@dataclass(frozen=True)
class ByHand:
    """What the files of one side say, and neither its plan nor the other side. side: a | b"""

    side: str
    says: str


@dataclass(frozen=True)
class Comparison:
    """meaning: leaves of the plan; spec: keys of the job; breaks_resume: those that make it another run (D10)."""

    meaning: tuple[Change, ...]
    by_hand: tuple[ByHand, ...]
    spec: tuple[Change, ...]
    breaks_resume: tuple[str, ...]
    files: tuple[FileChange, ...]

    @property
    def differs(self) -> bool:
        return bool(self.meaning or self.by_hand or self.spec or self.files)


def compare(left: Side, right: Side) -> Comparison:
    """Raises KeyError or ValueError for an artifact of a jobc that kept no plan."""
    a, b = left.files, right.files
    identity = _changes(pairs.read(a[IDENTITY]), pairs.read(b[IDENTITY]))
    return Comparison(
        meaning=tuple(_changes(pairs.read(a[PLAN]), pairs.read(b[PLAN]))),
        by_hand=(
            *(ByHand("a", said) for said in left.by_hand if said not in right.by_hand),
            *(ByHand("b", said) for said in right.by_hand if said not in left.by_hand),
        ),
        spec=tuple(_changes(_said(a), _said(b))),
        breaks_resume=tuple(change.key for change in identity),
        files=tuple(_files(left, right)),
    )


def _changes(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[Change]:
    pairs_of = ((key, a.get(key, ABSENT), b.get(key, ABSENT)) for key in sorted(a.keys() | b.keys()))
    found = [Change(key, before, after) for key, before, after in pairs_of if before != after]
    return [each for each in found if not (_is_empty_mapping(each) and _has_below(each.key, found))]


def _is_empty_mapping(change: Change) -> bool:
    return {} in (change.before, change.after) and ABSENT in (change.before, change.after)


def _has_below(key: str, changes: list[Change]) -> bool:
    """Whether what a mapping had, and has no more, is told key by key."""
    return any(each.key.startswith(f"{key}.") for each in changes)


def _said(files: Mapping[str, str]) -> dict[str, Any]:
    """Keys of the job and the backend, as somebody said them: null for what is derived."""
    said = {**pairs.read(files[FREE]), **pairs.read(files[IDENTITY])}
    spec = json.loads(files[SOURCE_MAP])["spec"]
    nulls = [key for key, (value, *_) in spec.items() if value is None and key in said]
    return {**said, **dict.fromkeys(nulls), "backend": pairs.read(files[PLAN])["backend.name"]}


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
        for what, in_a, in_b in (
            ("executable", left.executable, right.executable),
            ("a link", left.links, right.links),
        ):
            if path in a and path in b and (path in in_a) != (path in in_b):
                yield FileChange(path, f"{what} only in {'a' if path in in_a else 'b'}", 0)


def _different_lines(path: str, a: str, b: str) -> int:
    left, right = as_read(path, a), as_read(path, b)
    if left is None or right is None:
        left, right = a.split("\n"), b.split("\n")
    blocks = SequenceMatcher(None, left, right, autojunk=False).get_matching_blocks()
    same = sum(block.size for block in blocks)
    return max(len(left), len(right)) - same
