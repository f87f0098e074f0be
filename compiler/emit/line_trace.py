"""Which plan keys each line of a file depends on: collected while the file is made."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from .artifact import LineRange


@dataclass(frozen=True)
class Refused:
    """Text that has no spelling in its place. keys: plan keys that it was read from; place: such as `#SBATCH line`"""

    keys: tuple[str, ...]
    text: str
    place: str
    because: str


class TextRefused(Exception):
    """Texts of the job that cannot be written into a file as they are."""

    def __init__(self, refused: Iterable[Refused]) -> None:
        self.refused = tuple(refused)
        super().__init__("; ".join(f"{refusal.text!r} is not valid in its {refusal.place}" for refusal in self.refused))


@dataclass
class Trace:
    """The reads of one rendering. pending: since the last piece; guards: one set per open `if` or `for`; line: in the
    template, of the piece that comes next; ended: sets of the blocks that ended since the last piece; refused: texts
    that had no spelling in their places.
    """

    pending: list[str] = field(default_factory=list)
    guards: list[list[str]] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    line: int = 1
    refused: list[Refused] = field(default_factory=list)

    def refuse(self, text: str, line: str, because: str) -> None:
        """Note text that has no spelling in a line that begins with `line`."""
        read = self.pending or next((guard for guard in reversed(self.guards) if guard), [])
        self.refused.append(Refused(tuple(read), text, f"{line} line", because))

    def at(self, line: int) -> str:
        self.line = line
        return ""

    def note(self, key: str) -> None:
        self.pending.append(key)

    def push(self) -> str:
        self.guards.append([])
        return ""

    def pop(self) -> str:
        self.ended += self.guards.pop()
        return ""

    def guard(self, test: Any) -> Any:
        """An `if` was decided: what its test read holds for the whole block."""
        truth = bool(test)
        self.guards[-1] += self.take()
        return truth

    def over(self, iterable: Any) -> Any:
        """A `for` begins: what its iterable read holds for every round."""
        self.guards[-1] += self.take()
        self.guards.append([])
        return iterable

    def item(self) -> str:
        """A `for` took its next item: what that read holds for this round."""
        self.guards[-1] = self.take()
        return ""

    def take(self) -> list[str]:
        pending, self.pending = self.pending, []
        return pending

    def blocks(self) -> list[str]:
        """Keys of the blocks that ended before the piece just made: an empty one had no piece to carry them."""
        ended, self.ended = self.ended, []
        return ended

    def keys(self) -> tuple[str, ...]:
        """Keys of the piece just made."""
        keys = dict.fromkeys(self.take())
        for guard in self.guards:
            keys.update(dict.fromkeys(guard))
        return tuple(keys)


class Lines:
    """Collects (text, keys, source) pieces into lines; two pieces on one line unite their keys."""

    def __init__(self) -> None:
        self.text: list[str] = []
        self.rows: list[tuple[dict[str, None], str]] = [({}, "")]

    def within(self, keys: Iterable[str]) -> None:
        """Something that may be empty stood here: the line depends on it, if it has begun."""
        row_keys, source = self.rows[-1]
        if source:
            row_keys.update(dict.fromkeys(keys))

    def add(self, text: str, keys: Iterable[str], file: str, line: int, constant: bool) -> None:
        """line: in `file`, 0 for none; constant: template text, so the source line moves along with it."""
        self.text.append(text)
        if not text:
            self.within(keys)
        for i, part in enumerate(text.split("\n")):
            if i:
                self.rows.append(({}, ""))
            if part or i < text.count("\n"):
                row_keys, source = self.rows[-1]
                row_keys.update(dict.fromkeys(keys))
                template_line = f"{file}:{line + i if constant else line}" if line else file
                self.rows[-1] = (row_keys, source or template_line)

    def ranges(self) -> tuple[LineRange, ...]:
        rows = self.rows[:-1] if not self.rows[-1][1] else self.rows
        return tuple(LineRange(i, i, tuple(keys), source) for i, (keys, source) in enumerate(rows, 1))
