"""What `jobc why` is asked about: a job's source map, its plan, and its files as they are now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ..sourcemap import SourceMap
from .why_line import as_written, keys_of


@dataclass(frozen=True)
class Job:
    """What is asked about. folder: put before a path that is shown; files: path -> lines, lib/ included."""

    source_map: SourceMap
    plan: Mapping[str, Any]
    files: Mapping[str, Sequence[str]]
    folder: str

    @cached_property
    def lines(self) -> dict[str, list[str]]:
        """Spec key -> `PATH:LINE  text` of every line that depends on it."""
        found: dict[str, list[str]] = {}
        behind: dict[tuple[str, ...], tuple[str, ...]] = {}
        for path, rows in sorted(self.source_map.files.items()):
            for number, (keys, template) in enumerate(rows, 1):
                keys = keys_of(keys, template)
                if keys not in behind:
                    behind[keys] = self.source_map.sources(self.source_map.spec_keys(keys))
                for key in behind[keys]:
                    found.setdefault(key, []).append(self.show_written(path, number))
        return found

    @cached_property
    def numbers(self) -> dict[str, dict[int | None, tuple[int, bool]]]:
        """Path -> number of a line that jobc wrote -> its number now, and whether it is as it was; gone: not there."""
        found = {}
        for path, lines in self.files.items():
            written = enumerate(as_written(self.source_map.sums.get(path, ()), lines), 1)
            found[path] = {was: (number, is_same) for number, (was, is_same) in written}
        return found

    def show_written(self, path: str, was: int) -> str:
        """A line that jobc wrote, as it is now."""
        if was not in self.numbers.get(path, {}):
            return f"{self.folder}{path}  edited: a line that depended on it is gone"
        number, is_same = self.numbers[path][was]
        return self.show(path, number) + ("" if is_same else "  (edited: not as jobc wrote it)")

    def show(self, path: str, number: int) -> str:
        """`PATH:LINE  text` of a line as it is now."""
        return f"{self.folder}{path}:{number}  {self.files[path][number - 1].strip()}".rstrip()
