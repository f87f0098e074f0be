"""One emitted file with each line's origin.

`Artifact` and `LineRange` stay as they were in the first release, because backends build them and other tools read
them.
"""

from typing import NamedTuple

from ...runtime.system.frozen_dataclass import dataclass

PROGRAM = "jobctl"  # path of the packed program within an artifact


class LineRange(NamedTuple):
    """A range of lines with the same origin.

    first, last: line numbers, 1-based and inclusive.
    keys: plan keys that the lines depend on.
    template: FILE:LINE that they were rendered from.
    """

    first: int
    last: int
    keys: tuple[str, ...]
    template: str


@dataclass(frozen=True)
class Artifact:
    """One emitted file.

    path: relative to the artifact directory, with `/`.
    text: the whole file, including its final newline.
    binary: contents of a file that is not text. In that case, `text` contains only the readable part.
    chosen: plan keys that decide whether the backend emits this file, or which version of it.
    """

    path: str
    text: str
    executable: bool = False
    lines: tuple[LineRange, ...] = ()
    chosen: tuple[str, ...] = ()
    binary: bytes | None = None

    @property
    def content(self) -> bytes:
        return self.text.encode() if self.binary is None else self.binary
