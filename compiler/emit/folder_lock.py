"""Lock an artifact directory, so that only one process at a time writes it."""

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ..diagnostics.diagnostic import CompileError, Diagnostic

LOCK_WAIT_S = 60.0


@contextmanager
def lock_folder(target: Path) -> Iterator[None]:
    """Lock `target`, so that only one compile writes it. The lock file is next to `target` and is removed afterwards.

    The lock file is a regular file, because NFS cannot lock directories. Only users who can write to the folder can
    open it, because anyone who can open a file can lock it. Raises CompileError JC5003 if another process keeps the
    lock for LOCK_WAIT_S, and OSError if the lock file cannot be created.
    """
    file = target.parent / f".{target.name}_lock"
    until = time.monotonic() + LOCK_WAIT_S
    while True:
        lock = _open_lock(file)
        is_too_open = os.fstat(lock).st_mode & 0o077 & ~_lock_mode(file.parent)
        if is_too_open and _is_lock_current(lock, file):  # left behind, perhaps when the folder was shared
            with suppress(OSError):
                file.unlink()
        if _try_lock(lock) and _is_lock_current(lock, file):
            break
        os.close(lock)
        if time.monotonic() > until:
            title, because = f"cannot write {os.path.relpath(target)}", "another process, probably jobc, has locked it"
            raise CompileError(
                [Diagnostic("JC5003", title, because, f"wait until that process ends; `lsof {file}` shows the process")]
            )
        time.sleep(0.02)
    try:
        yield
    finally:
        with suppress(OSError):  # the file belongs to another user, and the folder has the sticky bit
            file.unlink()
        os.close(lock)


def _open_lock(file: Path) -> int:
    flags = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        return os.open(file, flags | os.O_RDWR | os.O_CREAT, _lock_mode(file.parent))
    except PermissionError:
        return os.open(file, flags | os.O_RDONLY)  # left behind by another user's killed compile


def _lock_mode(folder: Path) -> int:
    """Return the mode that lets only users who can write to the folder open the lock file."""
    writers = folder.stat().st_mode & 0o022
    return 0o600 | writers | writers << 1


def _try_lock(lock: int) -> bool:
    """Lock the file. Return False if another process has it; True if the file system has no locks (some Lustre)."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.EBADF):
            raise
    return True


def _is_lock_current(lock: int, file: Path) -> bool:
    """Return whether the open lock file still exists under that name: the previous holder may have removed it."""
    try:
        return os.path.samestat(os.fstat(lock), file.lstat())
    except FileNotFoundError:
        return False
