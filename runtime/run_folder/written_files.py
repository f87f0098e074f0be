"""Report, at the end of a run, which files the user's program wrote to its working copy, RUN/code.

In:  RUN/code; its links, such as data/, are not followed, because they lead out of the run.
Out: one line: the number of files, their total size, the folder, and the names of the largest files.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

MOST_S = 2.0  # for the scan; a scheduler kills a job soon after its time limit
MOST_NAMES, MOST_CHARACTERS = 3, 48
BY_PRODUCTS = {"__pycache__", ".git"}
UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


class FilesWrittenByProgram:
    """Files in `folder` that were written after begin()."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._since: float | None = None

    def begin(self, now: float) -> None:
        """Count files from now on; ignored after a restart in place. now: seconds since 1970, by the storage's clock"""
        if self._since is None:
            self._since = now

    def line(self, most_s: float = MOST_S) -> str:
        """Return a line such as "script wrote 3 files (12 MiB) in RUN/code: model.pt, …"; "" if the script wrote no
        files.

        most_s: time limit for the scan, in seconds.
        """
        if self._since is None:
            return ""
        deadline = time.monotonic() + most_s
        sizes: dict[str, int] = {}
        at_least = ""
        for name, size in self._changed(self.folder, self._since):
            sizes[name] = size
            if time.monotonic() > deadline:
                at_least = "at least "
                break
        if not sizes:
            return ""
        largest = sorted(sizes, key=lambda name: (-sizes[name], name))[:MOST_NAMES]
        names = ", ".join(_short(name) for name in largest)
        if len(sizes) > len(largest):
            names += f" and {len(sizes) - len(largest)} more"
        files = f"{len(sizes)} file{'s' if len(sizes) > 1 else ''}"
        total = format_size(sum(sizes.values()))
        return f"script wrote {at_least}{files} ({total}) in {_printable(str(self.folder))}: {names}"

    def _changed(self, folder: Path, since: float) -> Iterator[tuple[str, int]]:
        """Yield the relative path and size in bytes of each regular file whose content or name has changed since then.

        Compares the change time (ctime), not the modification time, because a script may preserve the latter when it
        copies a file.
        """
        queue = [str(folder)]
        while queue:
            try:
                entries = list(os.scandir(queue.pop()))
            except OSError:  # removed in the meantime, or closed by the script
                continue
            for entry in entries:
                try:
                    status = entry.stat(follow_symlinks=False)
                except OSError:
                    continue
                if stat.S_ISDIR(status.st_mode) and entry.name not in BY_PRODUCTS:
                    queue.append(entry.path)
                elif stat.S_ISREG(status.st_mode) and status.st_ctime >= since:
                    yield os.path.relpath(entry.path, folder), status.st_size


def format_size(size: float) -> str:
    for unit in UNITS:
        if size < 1024 or unit == UNITS[-1]:
            break
        size /= 1024
    return f"{size:.0f} {unit}" if size >= 10 or unit == "B" else f"{size:.1f} {unit}"


def _short(name: str) -> str:
    name = _printable(name)
    return name if len(name) <= MOST_CHARACTERS else f"…{name[1 - MOST_CHARACTERS :]}"


def _printable(text: str) -> str:
    """Escape control characters and bytes that are not valid text."""
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)
