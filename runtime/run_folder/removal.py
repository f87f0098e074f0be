"""Remove this user's folders, such as old runs, without following symbolic links or leaving the file system.

In:  a path whose last part is not a link. The folder is first renamed to `.NAME.removed`. If this program is then
     killed, the partly removed folder does not keep its original name, and the next call on it removes the rest.
Out: nothing. Raises OSError if something could not be removed.

Everything in the folder is opened relative to its parent, which is kept open, so that another user who can write there
cannot redirect the removal.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from .run import is_mine

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def original_name(hidden: str) -> str:
    """Return the original name of a hidden folder, or "" if the folder is not hidden."""
    match = re.fullmatch(r"[.](.*)[.]removed", hidden, re.DOTALL)
    return match.group(1) if match else ""


def remove_own_folder(folder: Path) -> None:
    """Remove one of this user's folders and everything in it. Raises OSError."""
    with _open_directory(folder.parent) as parent:
        found = os.stat(folder.name, dir_fd=parent, follow_symlinks=False)
        if not stat.S_ISDIR(found.st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))
        if not is_mine(folder):
            raise PermissionError(errno.EPERM, "belongs to another user", str(folder))
        name = folder.name
        if not original_name(name):
            name = f".{name}.removed"
            os.rename(folder.name, name, src_dir_fd=parent, dst_dir_fd=parent)
        if not os.path.samestat(found, os.stat(name, dir_fd=parent, follow_symlinks=False)):
            raise OSError(errno.ESTALE, "was replaced while it was being removed", str(folder))
        remove_tree(name, parent)


def remove_folder(folder: Path) -> None:
    """Remove a folder that nobody else uses, without renaming it first. Raises OSError."""
    with _open_directory(folder.parent) as parent:
        remove_tree(folder.name, parent)


def remove_tree(name: str, parent: int) -> None:
    """Remove a folder, however deeply nested, from the open folder `parent`. Raises OSError at the first failure."""
    here, above, names = _open_folder(name, parent), [os.fstat(parent)], [name]
    device = os.fstat(here).st_dev
    try:
        while names:
            subfolder = _remove_files(here)
            if subfolder is not None:
                above.append(os.fstat(here))
                here = _close_and_return_next(here, _open_folder(subfolder, here))
                names.append(subfolder)
                if os.fstat(here).st_dev != device:
                    raise OSError(errno.EXDEV, "has a mount point")
            else:
                here = _close_and_return_next(here, os.open("..", _FOLDER, dir_fd=here))
                if not os.path.samestat(above.pop(), os.fstat(here)):
                    raise OSError(errno.ESTALE, "was moved while it was being removed")
                os.rmdir(names.pop(), dir_fd=here)
    finally:
        os.close(here)


def _open_folder(name: str, parent: int) -> int:
    """Open a folder and make it writable because a run's copies of the code and the artifact are read-only."""
    folder = os.open(name, _FOLDER, dir_fd=parent)
    mode = os.fstat(folder).st_mode
    if mode & stat.S_IRWXU != stat.S_IRWXU:
        with contextlib.suppress(OSError):
            os.fchmod(folder, mode | stat.S_IRWXU)
    return folder


def _close_and_return_next(here: int, there: int) -> int:
    os.close(here)
    return there


def _remove_files(folder: int) -> str | None:
    """Remove files until there is a subfolder, and return its name, or None if the folder is empty."""
    has_entries = True
    while has_entries:  # a scan may miss entries while others are being removed
        has_entries = False
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    return entry.name
                os.unlink(entry.name, dir_fd=folder)
                has_entries = True
    return None


@contextlib.contextmanager
def _open_directory(folder: Path) -> Iterator[int]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
