"""Keep small results between commands, in the user's cache folder. A file that cannot be read or written is ignored.

Source: XDG Base Directory Specification 0.8.
"""

from __future__ import annotations

import os
import stat
import zlib
from contextlib import suppress

_LARGEST = 4 << 20  # bytes
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


def read(kind: str, key: bytes) -> bytes | None:
    """Return the intact result for a key that this user wrote, or None. kind: folder name"""
    with suppress(OSError):
        with open(os.open(_result_path(kind, key), _READ), "rb") as stream:
            state = os.fstat(stream.fileno())
            is_own = stat.S_ISREG(state.st_mode) and state.st_uid == os.geteuid()
            content = stream.read(_LARGEST) if is_own else b""
        start = _file_header(key, content[4 + 4 + len(key) :])
        if content.startswith(start):
            return content[len(start) :]
    return None


def write(kind: str, key: bytes, result: bytes, max_files: int) -> None:
    """Write the result for a key. max_files: maximum number of files in the folder `kind`"""
    with suppress(OSError):
        path = _result_path(kind, key)
        folder, new = os.path.dirname(path), f"{path}.{os.getpid()}"
        os.makedirs(folder, mode=0o700, exist_ok=True)
        with open(os.open(new, _CREATE, 0o600), "wb") as stream:
            try:
                stream.write(_file_header(key, result) + result)
                stream.flush()
                os.replace(new, path)
            except OSError:  # for example, a full disk
                os.unlink(new)
        _limit_file_count(folder, max_files)


def _result_path(kind: str, key: bytes) -> str:
    """Return the path of a result. Raises FileNotFoundError if there is no cache folder."""
    caches = os.environ.get("XDG_CACHE_HOME", "")
    folder = caches if os.path.isabs(caches) else os.path.expanduser("~/.cache")  # relative paths are ignored
    if not os.path.isabs(folder):
        raise FileNotFoundError(folder)
    return os.path.join(folder, "jobc", kind, f"{zlib.crc32(key):08x}{zlib.adler32(key):08x}")


def _file_header(key: bytes, result: bytes) -> bytes:
    """Return a file's header, which contains the whole key, because other keys may have the same file name."""
    return b"".join(number.to_bytes(4, "big") for number in (zlib.crc32(key + result), len(key))) + key


def _limit_file_count(folder: str, max_files: int) -> None:
    """Remove the oldest tenth of the files if there are too many."""
    paths = [os.path.join(folder, name) for name in os.listdir(folder)]
    if len(paths) > max_files:
        for path in sorted(paths, key=os.path.getmtime)[: max(max_files // 10, 1)]:
            os.unlink(path)
