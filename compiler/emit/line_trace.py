"""Record which plan keys each line depends on while a file is rendered."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from .artifact import LineRange


@dataclass(frozen=True)
class RefusedText:
    """Text that cannot be written in its context.

    keys: the plan keys that it comes from.
    place: the context, such as `#SBATCH line`.
    """

    keys: tuple[str, ...]
    text: str
    place: str
    because: str


class TextRefusedError(Exception):
    """Raised if some of the job's text cannot be written into a file unchanged."""

    def __init__(self, refused: Iterable[RefusedText]) -> None:
        self.refused = tuple(refused)
        super().__init__("; ".join(f"{refusal.text!r} is not valid in its {refusal.place}" for refusal in self.refused))


@dataclass
class PlanKeyTrace:
    """Keys read during one rendering.

    pending: keys read since the last piece.
    guards: one set of keys for each open `if` or `for`.
    line: line of the next piece in the template.
    ended: keys of blocks that ended since the last piece.
    refused: texts that cannot be written in their context.
    """

    pending: list[str] = field(default_factory=list)
    guards: list[list[str]] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    line: int = 1
    refused: list[RefusedText] = field(default_factory=list)

    def record_refused_text(self, text: str, line: str, because: str) -> None:
        """Record text that cannot be written in a line that begins with `line`."""
        read = self.pending or next((guard for guard in reversed(self.guards) if guard), [])
        self.refused.append(RefusedText(tuple(read), text, f"{line} line", because))

    def set_line(self, line: int) -> None:
        self.line = line

    def record_key(self, key: str) -> None:
        self.pending.append(key)

    def begin_block(self) -> None:
        self.guards.append([])

    def end_block(self) -> None:
        self.ended += self.guards.pop()

    def record_test(self, test: Any) -> Any:
        """Return the condition's truth value. The whole `if` block depends on the keys that it read."""
        truth = bool(test)
        self.guards[-1] += self.take_pending_keys()
        return truth

    def record_loop(self, iterable: Any) -> Any:
        """Return the iterable of a `for`. Every iteration depends on the keys that were read to get it."""
        self.guards[-1] += self.take_pending_keys()
        self.guards.append([])
        return iterable

    def record_loop_item(self) -> None:
        """Record the keys that were read to get the next item, because this iteration depends on them."""
        self.guards[-1] = self.take_pending_keys()

    def take_pending_keys(self) -> list[str]:
        pending, self.pending = self.pending, []
        return pending

    def take_ended_keys(self) -> list[str]:
        """Return the keys of blocks that ended before the current piece."""
        ended, self.ended = self.ended, []
        return ended

    def take_current_keys(self) -> tuple[str, ...]:
        keys = dict.fromkeys(self.take_pending_keys())
        for guard in self.guards:
            keys.update(dict.fromkeys(guard))
        return tuple(keys)


class LineCollector:
    """Collects (text, keys, source) pieces into lines. The keys of a line are the keys of all its pieces."""

    def __init__(self) -> None:
        self.text: list[str] = []
        self.rows: list[tuple[dict[str, None], str]] = [({}, "")]

    def add_keys_to_current_line(self, keys: Iterable[str]) -> None:
        """Add a piece's keys to the current line if that line has begun. The piece may be empty."""
        row_keys, source = self.rows[-1]
        if source:
            row_keys.update(dict.fromkeys(keys))

    def add_piece(self, text: str, keys: Iterable[str], file: str, line: int, constant: bool) -> None:
        """Add a piece.

        line: line in `file`, or 0 for none.
        constant: whether the piece is template text, which advances the source line.
        """
        self.text.append(text)
        if not text:
            self.add_keys_to_current_line(keys)
        for i, part in enumerate(text.split("\n")):
            if i:
                self.rows.append(({}, ""))
            if part or i < text.count("\n"):
                row_keys, source = self.rows[-1]
                row_keys.update(dict.fromkeys(keys))
                template_line = f"{file}:{line + i if constant else line}" if line else file
                self.rows[-1] = (row_keys, source or template_line)

    def add_line(self, text: str, keys: Iterable[str], source: str) -> None:
        """Add a whole line, with its newline."""
        self.text.append(text)
        self.rows[-1] = (dict.fromkeys(keys), source)
        self.rows.append(({}, ""))

    def line_ranges(self) -> tuple[LineRange, ...]:
        rows = self.rows[:-1] if not self.rows[-1][1] else self.rows
        return tuple(LineRange(i, i, tuple(keys), source) for i, (keys, source) in enumerate(rows, 1))
