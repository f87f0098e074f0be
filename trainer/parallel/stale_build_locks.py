"""Locks of C++ builds that a killed process has left: the next one would wait for them without end.

torch.utils.cpp_extension (torch 2.13, file_baton.py) marks a build by an empty file `lock` beside it, which only the
process that made it removes. A lock of the kernel is held beside it here, and ends with its process.
"""

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from torch.utils import cpp_extension

WAIT_S = 30.0


def extensions_folder() -> Path:
    return Path(os.environ.get("TORCH_EXTENSIONS_DIR") or cpp_extension.get_default_build_root())


@contextlib.contextmanager
def may_build(folder: Path) -> Iterator[None]:
    """Around what may build extensions in `folder`. Who is the only one there removes the locks that are left."""
    folder.mkdir(parents=True, exist_ok=True)
    mine = _open_lock(folder / f".jobc_lock.{os.geteuid()}")
    try:
        if mine is not None:
            with contextlib.suppress(OSError):
                fcntl.flock(mine, fcntl.LOCK_EX | fcntl.LOCK_NB)
                for lock in (*folder.glob("*/lock"), *folder.glob("*/*/lock")):
                    if lock.lstat().st_uid == os.geteuid():  # others who share the folder have locks of their own
                        lock.unlink(missing_ok=True)
            _share(mine)
        yield
    finally:
        if mine is not None:
            os.close(mine)


def _open_lock(path: Path) -> int | None:
    """Return the descriptor of a lock that no other user can hold; None when another user owns what is there."""
    try:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    except OSError:
        return None
    if os.fstat(lock).st_uid != os.geteuid():
        os.close(lock)
        return None
    os.fchmod(lock, 0o600)
    return lock


def _share(lock: int) -> None:
    """Hold the lock with others who build; without it after WAIT_S, because nobody removes locks for so long."""
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return
        time.sleep(0.05)
