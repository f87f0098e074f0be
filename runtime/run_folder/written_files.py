"""Report, at the end of a run, which files the user's program wrote to its working copy, RUN/code.

In:  the copy of the code in RUN/code, and the project's git-ignored folders that are linked there, such as outputs/.
Out: a line for each location with the number of files, their total size, where they are, and the names of the largest.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from ..system.text import count_with_noun, escape_unprintable, format_size

MOST_S = 2.0  # time limit for the scan, because a scheduler kills a job soon after the job's own time limit
MOST_NAMES, MOST_CHARACTERS = 3, 48
BY_PRODUCTS = {"__pycache__", ".git"}


class FilesWrittenByProgram:
    """Files in `folder` that were written after begin_count()."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._since: float | None = None

    def begin_count(self, now: float) -> None:
        """Count files from now on. Ignored after a restart in place. now: storage time, in seconds since the epoch"""
        if self._since is None:
            self._since = now

    def describe_written_files(self, most_s: float = MOST_S) -> list[str]:
        """Return a line such as "script wrote 3 files (12 MiB) in RUN/code: model.pt, …" if the script wrote files, and
        another one if it wrote to linked folders outside the run.

        most_s: time limit for the scan, in seconds.
        """
        if self._since is None:
            return []
        deadline = time.monotonic() + most_s
        links: list[str] = []
        folder = escape_unprintable(str(self.folder))
        in_run = self._describe_changed_files([str(self.folder)], links, deadline, f"in {folder}")
        through_links = self._describe_changed_files(
            links, [], deadline, "outside the run, in symlinked folders that all runs share"
        )
        return [*filter(None, (in_run, through_links))]

    def _describe_changed_files(self, folders: list[str], links: list[str], deadline: float, where: str) -> str:
        """Describe the files in the folders whose content or name has changed since begin_count(), or return "" if
        there are none. Links to folders are not followed but added to `links`.

        Compares the change time (ctime), not the modification time, because a script may preserve the latter when it
        copies a file.
        """
        assert self._since is not None
        sizes: dict[str, int] = {}
        at_least = ""
        for path, status in _walk_entries(folders):
            if stat.S_ISLNK(status.st_mode) and os.path.isdir(path):
                links.append(path)
            elif stat.S_ISREG(status.st_mode) and status.st_ctime >= self._since:
                sizes[os.path.relpath(path, self.folder)] = status.st_size
            if time.monotonic() > deadline:
                at_least = "at least "
                break
        if not sizes:
            return ""
        largest = sorted(sizes, key=lambda name: (-sizes[name], name))[:MOST_NAMES]
        names = ", ".join(_shorten_name(name) for name in largest)
        if len(sizes) > len(largest):
            names += f" and {len(sizes) - len(largest)} more"
        files = count_with_noun(len(sizes), "file")
        return f"script wrote {at_least}{files} ({format_size(sum(sizes.values()))}) {where}: {names}"


def _walk_entries(folders: list[str]) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the path and status of everything in the folders, except in by-products. Follows no links."""
    for folder in folders:
        for parent, subfolders, names in os.walk(folder):
            subfolders[:] = [name for name in subfolders if name not in BY_PRODUCTS]
            for name in (*names, *subfolders):
                with contextlib.suppress(OSError):  # removed in the meantime
                    path = os.path.join(parent, name)
                    yield path, os.lstat(path)


def _shorten_name(name: str) -> str:
    name = escape_unprintable(name)
    return name if len(name) <= MOST_CHARACTERS else f"…{name[1 - MOST_CHARACTERS :]}"
