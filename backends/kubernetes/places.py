"""Paths in a pod where nothing may be mounted: those of the image, of the kernel and of jobc.

In   the path of a mount, as somebody typed it
Out  place: as the kernel takes it; is_reserved: whether a mount there would hide one of these
Below /usr/local, /usr/share and /usr/src images and clusters put things of their own, such as drivers and models.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from posixpath import normpath

OWN = "/jobc"
WHOLE = (OWN, "/bin", "/sbin", "/lib", "/lib64", "/proc", "/sys", "/dev", "/usr")  # and all that lies below
FREE = ("/usr/local", "/usr/share", "/usr/src")  # what lies below them
ALONE = ("/", "/etc", *FREE, *(f"/usr/local/{name}" for name in ("bin", "sbin", "lib", "lib64")))


def place(path: str) -> str:
    return f"/{normpath(path).lstrip('/')}"  # POSIX leaves two slashes at the start as they are; Linux does not


def is_own(path: str) -> bool:
    return _is_below(place(path), (OWN,))


def is_reserved(path: str) -> bool:
    normalized = place(path)
    return normalized in ALONE or (_is_below(normalized, WHOLE) and not _is_below(normalized, FREE))


def _is_below(path: str, folders: tuple[str, ...]) -> bool:
    return any(PurePosixPath(path).is_relative_to(folder) for folder in folders)
