"""Find an old run's checkpoints to remove, keeping the last intact and the best one (clean --keep-checkpoints).

In:  the trainer's checkpoints in RUN/checkpoints. step_N/MANIFEST.json contains each file's size and SHA-256; `best` is
     a symlink.
Out: folders to remove, and folders that cannot currently be read and are kept because they may be intact.
The files are untrusted. A file is read only if it has the size given in its manifest.
"""

from __future__ import annotations

import enum
import hashlib
import os
import re
from pathlib import Path
from typing import Any, BinaryIO

from ..run_folder.removal import original_name
from ..system.untrusted_files import MIB, Unreadable, is_file_name, open_regular, read_json

MANIFEST = "MANIFEST.json"
MOST_MANIFEST_BYTES = 64 * MIB
LEAST_HOLLOW_BYTES = 1 << 30
MOST_HOLLOWNESS = 100  # a file's size divided by its disk usage
BLOCK_BYTES = 512  # unit of st_blocks
_STEP = re.compile("step_[0-9]+")


class CheckpointState(enum.Enum):
    """A checkpoint's state. UNREAD: it cannot currently be read (I/O error), so it may be intact"""

    SOUND, DAMAGED, UNREAD = "sound", "damaged", "unread"


def find_removable_checkpoints(run: Path) -> tuple[list[Path], list[Path]]:
    """Return a run's checkpoints that can be removed, newest first, and those that cannot be read. If none is intact,
    only the leftovers of a killed clean can be removed.
    """
    last, removable, unread = None, [], []
    best, names = _best_checkpoint_name(run), _list_subfolders(run / "checkpoints")
    leftovers = [run / "checkpoints" / name for name in names if _STEP.fullmatch(original_name(name))]
    steps = sorted(filter(_STEP.fullmatch, names), key=lambda name: (int(name[len("step_") :]), name), reverse=True)
    for folder in (run / "checkpoints" / name for name in steps):
        found = compare_with_manifest(folder) if last is None else None
        if found is CheckpointState.SOUND:
            last = folder
        elif found is CheckpointState.UNREAD:
            unread.append(folder)
        elif folder.name != best:
            removable.append(folder)
    return [*(removable if last else []), *leftovers], unread


def _best_checkpoint_name(run: Path) -> str:
    try:
        return os.readlink(run / "checkpoints/best")
    except OSError:
        return ""


def _list_subfolders(folder: Path) -> list[str]:
    if folder.is_symlink():
        return []
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def compare_with_manifest(checkpoint: Path) -> CheckpointState:
    """Compare a checkpoint with its manifest. If it cannot be read, retry once, because a disk may recover."""
    found = _inspect_checkpoint(checkpoint)
    return _inspect_checkpoint(checkpoint) if found is CheckpointState.UNREAD else found


def _inspect_checkpoint(checkpoint: Path) -> CheckpointState:
    try:
        manifest = read_json(checkpoint / MANIFEST, MOST_MANIFEST_BYTES)
    except Unreadable as error:
        return _state_for_error(error)
    files = manifest.get("files") if isinstance(manifest, dict) else None
    if not isinstance(files, dict) or not files:
        return CheckpointState.DAMAGED
    results = {_inspect_file(checkpoint, name, entry) for name, entry in files.items()}
    worst_first = (CheckpointState.UNREAD, CheckpointState.DAMAGED, CheckpointState.SOUND)
    return next(state for state in worst_first if state in results)


def _inspect_file(checkpoint: Path, name: str, entry: Any) -> CheckpointState:
    if not is_file_name(name) or not isinstance(entry, dict):
        return CheckpointState.DAMAGED
    try:
        with open_regular(checkpoint / name) as file:
            return _compare_with_manifest(file, entry)
    except Unreadable as error:
        return _state_for_error(error)
    except OSError:
        return CheckpointState.UNREAD


def _compare_with_manifest(file: BinaryIO, entry: dict[str, Any]) -> CheckpointState:
    status = os.fstat(file.fileno())
    if status.st_size != entry.get("size"):
        file.read(1)  # raises OSError if a faulty disk reported a wrong size
        return CheckpointState.DAMAGED
    if _is_hollow(file, status):
        return CheckpointState.UNREAD
    digest, left = hashlib.sha256(), status.st_size
    while left:
        block = file.read(min(left, MIB))
        if not block:
            return CheckpointState.DAMAGED
        digest.update(block)
        left -= len(block)
    return CheckpointState.SOUND if digest.hexdigest() == entry.get("sha256") else CheckpointState.DAMAGED


def _is_hollow(file: BinaryIO, status: os.stat_result) -> bool:
    """Return whether a file is almost entirely a hole: reading its zeros (up to exabytes) would take forever."""
    if status.st_size < max(LEAST_HOLLOW_BYTES, status.st_blocks * BLOCK_BYTES * MOST_HOLLOWNESS):
        return False
    return os.lseek(file.fileno(), 0, os.SEEK_HOLE) < status.st_size  # some file systems do not count blocks


def _state_for_error(error: Unreadable) -> CheckpointState:
    """Return UNREAD for an I/O error or dangling link, which may be temporary, or DAMAGED for any other error."""
    if error.missing:
        return CheckpointState.UNREAD if error.path.is_symlink() else CheckpointState.DAMAGED
    return CheckpointState.DAMAGED if error.error is None else CheckpointState.UNREAD
