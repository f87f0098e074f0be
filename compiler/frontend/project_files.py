"""Decide which files a config may refer to: files in the project and in its config folders.

In:  a path from a config file, and the folders that may contain the file.
Out: nothing. Raises OutsideProject if the file is not allowed.

A config may come from anyone, so other files, and hidden files such as .env, are read only if the command line names
them.
"""

import os
from collections.abc import Iterable
from pathlib import Path

from .observed_files import ask_file_system


class OutsideProject(Exception):
    """Raised for a path outside the folders. The text is the reason, and reveals nothing about the file."""


def require_inside(path: str | Path, folders: Iterable[str | Path]) -> None:
    """Raise OutsideProject unless the file, after resolving symlinks, is in one of the folders and is not hidden."""
    real: str = ask_file_system("real path", path)
    below = [
        os.path.relpath(real, root)
        for folder in folders
        if is_inside(real, root := ask_file_system("real path", folder))
    ]
    if not below:
        raise OutsideProject("the file is outside the project and its config folders")
    if not any(all(not part.startswith(".") or part == "." for part in relative.split(os.sep)) for relative in below):
        raise OutsideProject("the file is hidden, or is in a hidden folder")


def project_folders() -> list[Path]:
    """Return [current directory], or [] in / and above the home directory, where other users have files."""
    current, home = (str(ask_file_system("real path", path)) for path in (os.getcwd(), Path.home()))
    return [] if current == os.sep or (current != home and is_inside(home, current)) else [Path(current)]


def is_inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)
