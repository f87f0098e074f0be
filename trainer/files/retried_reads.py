"""Read from a disk with retries, because network storage can fail briefly; then raise Unreadable.

An unreadable file may be intact, so it does not count as damaged, nothing is removed, and the rank exits with 69 after
which ranks may start again in place (rt/restarts.py) and a run may be resumed. Standard library only.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

NOT_THERE = (FileNotFoundError, NotADirectoryError, IsADirectoryError)  # an answer, and not for want of one
PAUSES_S = 1.0, 2.0, 4.0  # before the second time, the third and the fourth

T = TypeVar("T")


class Unreadable(OSError):
    """Describe in one line which file failed with which I/O error."""

    def __init__(self, path: Path, error: OSError) -> None:
        super().__init__(f"{path} cannot be read: {error.strerror or error}")


def read_with_retries(read: Callable[[Path], T], path: Path) -> T:
    """Return `read(path)`, with retries. Raises one of NOT_THERE at once, Unreadable if retries do not help."""
    pauses_s = list(PAUSES_S)
    while True:
        try:
            return read(path)
        except NOT_THERE:
            raise
        except OSError as error:
            if not pauses_s:
                raise Unreadable(path, error) from error
        time.sleep(pauses_s.pop(0))
