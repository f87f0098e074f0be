"""Find a folder that only this user and root can change, for temporary runs, locks and caches."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

_ALL_IDS = "4294967295"  # number of user IDs in /proc/self/uid_map, except in a container with only a few
_OVERFLOW_UID = Path("/proc/sys/kernel/overflowuid")  # the ID that owns the host root's files in a container


def is_replaceable_only_by_user(folder: Path) -> bool:
    """Return whether only this user and root can replace the folder.

    The folder and all folders above it must belong to them, and must be sticky or closed to other writers. A group
    whose ID equals the user's ID counts as the user.
    """
    trusted = {0, os.geteuid()}
    try:
        path = folder.resolve(strict=True)
        if _ALL_IDS not in Path("/proc/self/uid_map").read_text():
            trusted.add(int(_OVERFLOW_UID.read_text()))
        return all(_is_write_protected(part.stat(), trusted) for part in (path, *path.parents))
    except (OSError, RuntimeError):  # before Python 3.13, a loop of links is a RuntimeError
        return False


def make_private(folder: Path) -> bool:
    """Create the folder, or make an existing one private. Return False if it is not one of this user's folders."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        seen = folder.lstat()
        if not stat.S_ISDIR(seen.st_mode) or seen.st_uid != os.geteuid():
            return False
        folder.chmod(0o700)
    except OSError:
        return False
    return True


def private_folder(name: str) -> Path:
    """Return a folder that only this user can change. It is always the same folder, unless others have taken all
    possible paths.

    Raises OSError.
    """
    user = os.geteuid()
    for root in (os.environ.get("TMPDIR") or "/tmp", "/tmp", os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{user}"):
        own = Path(root, f"jobc-{user}")
        if is_replaceable_only_by_user(Path(root)) and make_private(own) and make_private(own / name):
            return own / name
    return Path(tempfile.mkdtemp())


def _is_write_protected(seen: os.stat_result, trusted: set[int]) -> bool:
    if seen.st_uid not in trusted:
        return False
    if seen.st_mode & stat.S_ISVTX:
        return True
    is_group_open = bool(seen.st_mode & stat.S_IWGRP) and seen.st_gid not in (0, os.geteuid())
    return not (seen.st_mode & stat.S_IWOTH) and not is_group_open
