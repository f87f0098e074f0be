"""Read files with retries because network storage can fail briefly; if all retries fail, raise Unreadable.

An unreadable file may be intact, so it does not count as damaged and nothing is removed. The rank exits with 69. Ranks
may then be restarted in place (runtime/supervisor/restarts.py), and the run can be resumed. Standard library only.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

NOT_THERE = (FileNotFoundError, NotADirectoryError, IsADirectoryError)  # definite errors, which are not retried
PAUSES_S = 1.0, 2.0, 4.0  # seconds before each retry

T = TypeVar("T")


class Unreadable(OSError):
    """Raised if a read fails after all retries. The message names the file and the I/O error in one line."""

    def __init__(self, path: Path, error: OSError) -> None:
        super().__init__(f"{path} cannot be read: {error.strerror or error}")


def read_with_retries(read: Callable[[Path], T], path: Path) -> T:
    """Return `read(path)`, with retries. Raises one of NOT_THERE immediately, and Unreadable after the last retry."""
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
