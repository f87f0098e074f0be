"""Durable writes, and reads with retries after I/O errors. Standard library only.

Each write calls fsync before it returns, and renames the new file into place. Reads are retried because network storage
can fail briefly. If all retries fail, the file may be intact, so it does not count as damaged and nothing is removed:
the rank exits with 69, ranks may be restarted in place (runtime/supervisor/restarts.py), and the run can be resumed.
"""

import hashlib
import io
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, cast

from ..runtime.system.frozen_dataclass import dataclass

# File content: bytes, or a function that writes to a file, so that a large state is never in memory twice.
Content = bytes | Callable[[BinaryIO], object]
NOT_THERE = (FileNotFoundError, NotADirectoryError, IsADirectoryError)  # definite errors, which are not retried
PAUSES_S = 1.0, 2.0, 4.0  # seconds before each retry

T = TypeVar("T")


@dataclass(frozen=True)
class WriteResult:
    """Result of a write: size in bytes and SHA-256 in hex."""

    size: int
    sha256: str


def write_durably(path: Path, content: Content) -> WriteResult:
    """Write a file and flush it to disk. Raises OSError."""
    with open(path, "wb") as file:
        sink = _HashingFile(file)
        try:
            if isinstance(content, bytes):
                sink.write(content)
            else:
                content(cast(BinaryIO, sink))
        except Exception:
            if sink.error is not None:  # torch.save reports a full disk as "unexpected pos"
                raise sink.error from None
            raise
        file.flush()
        os.fsync(file.fileno())
    return WriteResult(sink.size, sink.digest.hexdigest())


def replace_durably(path: Path, content: Content) -> WriteResult:
    """Replace `path` atomically: readers see either the old or the new content. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        written = write_durably(temporary, content)
        os.replace(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    flush_folder(path.parent)
    return written


def flush_folder(folder: Path) -> None:
    """Flush the directory entries of `folder` to disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sha256_of(file: BinaryIO) -> str:
    """Return the SHA-256, in hex, of the rest of the file after the current position."""
    digest = hashlib.sha256()
    while chunk := file.read(1 << 20):
        digest.update(chunk)
    return digest.hexdigest()


class _HashingFile(io.RawIOBase):
    """File wrapper that writes to `file` and hashes the data. Both release the GIL, so that training continues."""

    def __init__(self, file: BinaryIO) -> None:
        self.file, self.digest, self.size = file, hashlib.sha256(), 0
        self.error: OSError | None = None

    def writable(self) -> bool:
        return True

    def write(self, piece: Any) -> int:
        try:
            self.file.write(piece)
        except OSError as error:
            self.error = self.error or error
            raise
        self.digest.update(piece)
        self.size += len(piece)
        return len(piece)


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
