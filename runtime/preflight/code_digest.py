"""Compute a digest of the code in a folder, to check whether two nodes have the same code."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

LEFT_OUT = {".git", "__pycache__", ".venv", "venv", "node_modules", "runs", "artifacts"}
MOST_FILES = 20_000
LARGE_BYTES = 2**20  # of a larger file, only the size is hashed, because it is a checkpoint or data, not code


def compute_code_digest(folder: Path) -> str:
    """Return 12 hexadecimal digits of a hash of the files' names, modes and contents, and the number of files."""
    digest, count = hashlib.sha256(), 0
    for file in _walk_code_files(folder):
        count += 1
        if count > MOST_FILES:
            return f"more than {MOST_FILES} files"
        state = file.lstat()
        is_small = file.is_file() and state.st_size <= LARGE_BYTES
        content = hashlib.sha256(file.read_bytes()).hexdigest() if is_small else str(state.st_size)
        digest.update(f"{file.relative_to(folder)}\0{bool(state.st_mode & 0o100)}\0{content}\n".encode())
    return f"{digest.hexdigest()[:12]} ({count} files)"


def _walk_code_files(folder: Path) -> Iterator[Path]:
    for parent, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in LEFT_OUT)
        yield from (Path(parent, name) for name in sorted(files))
