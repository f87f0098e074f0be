"""Keep small results between commands, in the user's cache folder. A file that cannot be read or written is ignored.

What a result depends on is usually the state of files, which `states_of` returns without reading them.
Source XDG Base Directory Specification 0.8
"""

import hashlib
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from .untrusted_files import MIB, Unreadable, open_regular

SETTLED_S = 2  # a file this old gets a new time stamp when it changes, even on file systems that count in seconds
_LARGEST = 4 * MIB
_DIGEST_BYTES = 32


def cache_file(kind: str, key: str) -> Path | None:
    """Return the file for a result, or None without a cache. kind: folder name; key: what the result depends on"""
    caches = os.environ.get("XDG_CACHE_HOME", "")
    folder = Path(caches if os.path.isabs(caches) else os.path.expanduser("~/.cache"))  # relative paths are ignored
    if not folder.is_absolute():
        return None
    return folder / "jobc" / kind / hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()


def read(file: Path) -> bytes | None:
    """Return an intact result that this user wrote, or None if there is none."""
    try:
        with open_regular(file, follow=False) as stream:
            content = stream.read(_LARGEST) if os.fstat(stream.fileno()).st_uid == os.geteuid() else b""
    except (OSError, Unreadable):
        return None
    digest, result = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
    return result if digest == hashlib.sha256(result).digest() else None


def write(file: Path, result: bytes, most: int) -> None:
    """Write a result. most: maximum number of files in its folder"""
    new = file.with_suffix(f".{os.getpid()}")
    with suppress(OSError):
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "wb") as stream:
            stream.write(hashlib.sha256(result).digest() + result)
        os.replace(new, file)
        _limit_count(file.parent, most)


def _limit_count(folder: Path, most: int) -> None:
    """Remove the oldest tenth of the files if there are too many."""
    names = os.listdir(folder)
    if len(names) > most:
        by_age = sorted((folder / name for name in names), key=lambda file: file.stat().st_mtime)
        for file in by_age[: max(most // 10, 1)]:
            file.unlink(missing_ok=True)


def states_of(folder: Path | str, below: bool = True) -> Iterator[tuple[str, int, int, int, int]]:
    """Yield (path, size, time of change, time of modification, inode) of the files in a folder, sorted by name."""
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            if entry.is_dir():
                if below and entry.name != "__pycache__":
                    yield from states_of(entry.path)
            else:
                try:
                    state = entry.stat()
                except FileNotFoundError:  # a broken symlink, such as the lock of an editor, or deleted just now
                    yield entry.path, 0, 0, 0, 0
                    continue
                yield entry.path, state.st_size, state.st_ctime_ns, state.st_mtime_ns, state.st_ino
