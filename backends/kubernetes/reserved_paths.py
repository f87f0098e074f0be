"""Paths in a pod where nothing may be mounted, because the image, the kernel or jobc uses them.

In:  a mount's path, as the user typed it.
Out: the path as the kernel resolves it, and whether a mount there would hide one of these paths
Mounts below /usr/local, /usr/share and /usr/src are allowed: clusters put drivers and models there.
"""

from pathlib import PurePosixPath
from posixpath import normpath

OWN = "/jobc"
WHOLE = (OWN, "/bin", "/sbin", "/lib", "/lib64", "/proc", "/sys", "/dev", "/usr")  # and everything below them
FREE = ("/usr/local", "/usr/share", "/usr/src")  # mounts are allowed anywhere below them
ALONE = ("/", "/etc", *FREE, *(f"/usr/local/{name}" for name in ("bin", "sbin", "lib", "lib64")))


def normalize_path(path: str) -> str:
    return f"/{normpath(path).lstrip('/')}"  # normpath keeps two leading slashes, as POSIX requires; Linux does not


def is_jobc_path(path: str) -> bool:
    return _is_below(normalize_path(path), (OWN,))


def is_reserved(path: str) -> bool:
    normalized = normalize_path(path)
    return normalized in ALONE or (_is_below(normalized, WHOLE) and not _is_below(normalized, FREE))


def _is_below(path: str, folders: tuple[str, ...]) -> bool:
    return any(PurePosixPath(path).is_relative_to(folder) for folder in folders)
