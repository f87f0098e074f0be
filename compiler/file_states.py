"""Detect changed files by their size, times and inode, without reading them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

SETTLED_S = 2  # a change to a file this old gives it a new timestamp, even on file systems that only store seconds


def list_file_states(folder: Path | str, below: bool = True) -> Iterator[tuple[str, int, int, int, int]]:
    """Yield (path, size, time of change, time of modification, inode) of the files in a folder, sorted by name."""
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            if entry.is_dir():
                if below and entry.name != "__pycache__":
                    yield from list_file_states(entry.path)
            else:
                try:
                    state = entry.stat()
                except FileNotFoundError:  # a broken symlink, such as an editor's lock, or a file that was just deleted
                    yield entry.path, 0, 0, 0, 0
                    continue
                yield entry.path, state.st_size, state.st_ctime_ns, state.st_mtime_ns, state.st_ino
