"""Which files a spec may name: those of the project and of its config folders.

In   a path that a config file names, the folders it may lie in
Out  nothing, or OutsideProject. A spec may come from anybody; files elsewhere, and hidden ones such as .env or .ssh,
     are read only when the caller names them on the command line.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path


class OutsideProject(Exception):
    """Raised for a path outside the folders. Its text completes "because" and does not reveal what is there."""


def require_inside(path: str | Path, folders: Iterable[str | Path]) -> None:
    """Raise OutsideProject unless the file, symbolic links resolved, lies in one of the folders and is not hidden."""
    real = os.path.realpath(path)
    below = [os.path.relpath(real, root) for folder in folders if is_inside(real, root := os.path.realpath(folder))]
    if not below:
        raise OutsideProject("it is outside the project and its config folders")
    if not any(all(not part.startswith(".") or part == "." for part in relative.split(os.sep)) for relative in below):
        raise OutsideProject("it is a hidden file, or is in a hidden folder")


def working_folder() -> list[Path]:
    """The current folder as a project; [] for / and folders above a home, which hold everybody's files."""
    current, home = os.path.realpath(os.getcwd()), os.path.realpath(Path.home())
    return [] if current == os.sep or (current != home and is_inside(home, current)) else [Path(current)]


def is_inside(path: str, folder: str) -> bool:
    """Return True when a normalized path is the folder or lies in it."""
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)
