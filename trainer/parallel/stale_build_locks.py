"""Remove stale lock files of C++ extension builds, because the build after a killed one would wait forever.

torch.utils.cpp_extension (torch 2.13, file_baton.py) marks a build with an empty file `lock`, which only the process
that created it removes. jobc also holds a kernel lock (flock), which the kernel releases when the process ends.
"""

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from torch.utils import cpp_extension

WAIT_S = 30.0


def torch_extensions_folder() -> Path:
    return Path(os.environ.get("TORCH_EXTENSIONS_DIR") or cpp_extension.get_default_build_root())


@contextlib.contextmanager
def extension_build_allowed(folder: Path) -> Iterator[None]:
    """Return a context for code that may build extensions. If no other process is in one, remove stale locks first."""
    folder.mkdir(parents=True, exist_ok=True)
    kernel_lock = _open_lock(folder / f".jobc_lock.{os.geteuid()}")
    try:
        if kernel_lock is not None:
            with contextlib.suppress(OSError):
                fcntl.flock(kernel_lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                for lock in (*folder.glob("*/lock"), *folder.glob("*/*/lock")):
                    if lock.lstat().st_uid == os.geteuid():  # other users of the folder remove their own locks
                        lock.unlink(missing_ok=True)
            _lock_shared(kernel_lock)
        yield
    finally:
        if kernel_lock is not None:
            os.close(kernel_lock)


def _open_lock(path: Path) -> int | None:
    """Open a lock file that no other user can hold. Return its descriptor, or None if another user owns the path."""
    try:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    except OSError:
        return None
    if os.fstat(lock).st_uid != os.geteuid():
        os.close(lock)
        return None
    os.fchmod(lock, 0o600)
    return lock


def _lock_shared(lock: int) -> None:
    """Acquire the lock in shared mode. Give up after WAIT_S because removing locks takes less time than that."""
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return
        time.sleep(0.05)
