"""Describe runs in rows with sizes, for programs: `status --all`, and `jobc ls` (run_list.py).

Other users' run folders are not read. Nothing is written, except state/.now in a live run on another machine.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..engines.engine import Engine, State
from ..run_folder.run import Run, owner_name
from ..system.text import one_line

SCHEMA = 1  # version of the JSON that jobc ls and status print
MOST_FILES = 10_000  # how many files one listing measures, shared equally among its runs
BLOCK_BYTES = 512
COPIES = ("code", "artifact")  # a run's folders with many small files, which are measured last


class DiskUse(NamedTuple):
    """Disk usage. is_complete: whether all files were counted"""

    bytes: int
    is_complete: bool


class RunRow(NamedTuple):
    """One run in a list. started: seconds since the epoch; is_read: whether its files were read"""

    run: Run
    started: float
    state: State
    is_read: bool = False
    backend: str = ""
    attempt: int | None = None
    step: int | None = None
    loss: float | None = None

    @property
    def job(self) -> str:
        return self.run.path.parent.name

    def to_json_object(self, most_files: int) -> dict[str, Any]:
        """Return the row for programs (docs/reference/ls.md). most_files: limit on the files counted for the size"""
        size = measure_disk_use(self.run.path, most_files) if self.is_read else None
        return {
            "job": _to_unicode(self.job),
            "run": self.run.id,
            "path": _to_unicode(str(self.run.path)),
            "backend": self.backend,
            "attempt": self.attempt,
            "state": self.state.name,
            "text": one_line(self.state.text),
            "exit_code": self.state.exit_code,
            "step": self.step,
            "loss": self.loss,
            "started": int(self.started),
            "size_bytes": size and size.bytes,
            "size_is_complete": size is not None and size.is_complete,
        }


def make_run_row(run: Run, engine_of: Callable[[Run], Engine]) -> RunRow:
    """Return a run's row. For another user's run, it contains only the owner. engine_of: returns a run's engine"""
    if not run.is_mine:
        text = f"belongs to {owner_name(run.path)}: --run {run.id} reads it"
        return RunRow(run, run.created(), State("of another user", text))
    engine = engine_of(run)
    state, progress = engine.state(run), run.progress(0)
    step, loss = (progress.step, progress.loss) if progress else (None, None)
    return RunRow(run, run.created(), state, True, engine.job.backend, run.attempt, step, loss)


def rows_to_json_objects(rows: Sequence[RunRow]) -> list[dict[str, Any]]:
    most_files = MOST_FILES // max(1, len(rows))
    return [row.to_json_object(most_files) for row in rows]


def measure_disk_use(folder: Path, most_files: int) -> DiskUse:
    """Return a run folder's disk usage on its file system. Links are not followed, and hard links are counted once.

    Checkpoints are measured first because they are large, and copies of the code and the artifact last.
    """
    total = count = 0
    device = None
    waiting, linked = [str(folder)], set()
    while waiting:
        path, subfolders = waiting.pop(), []
        try:
            status = os.lstat(path)
            device = device or status.st_dev
            if status.st_dev != device:
                continue
            total += status.st_blocks * BLOCK_BYTES
            with os.scandir(path) as entries:
                for entry in entries:
                    count += 1
                    if count > most_files:
                        return DiskUse(total, False)
                    if entry.is_dir(follow_symlinks=False):
                        subfolders.append(entry.path)
                        continue
                    status = entry.stat(follow_symlinks=False)
                    inode = (status.st_dev, status.st_ino)
                    if inode not in linked:
                        total += status.st_blocks * BLOCK_BYTES
                    if status.st_nlink > 1:
                        linked.add(inode)
        except OSError:
            pass  # removed after it was listed, or not readable
        waiting += sorted(subfolders, key=_stack_sort_key)
    return DiskUse(total, True)


def _stack_sort_key(path: str) -> int:
    """Return a sort key for a folder's position on the stack. The last folder is measured first."""
    name = os.path.basename(path)
    return 0 if name in COPIES else 2 if name == "checkpoints" else 1


def format_size(size: DiskUse) -> str:
    """Return the size as `du -h` prints it, with a leading `>` if it is only a lower bound."""
    value, unit = float(size.bytes), ""
    for unit in ("", "K", "M", "G", "T", "P"):
        if value < 1000 or unit == "P":
            break
        value /= 1024
    text = f"{value:.1f}" if unit and value < 9.95 else f"{math.ceil(value)}"
    return f"{'' if size.is_complete else '>'}{text}{unit}"


def format_age(seconds: float) -> str:
    """Return an age in its largest unit, such as 3h. A negative age is returned as 0s."""
    seconds = max(0, int(seconds))
    for unit, length in (("y", 365 * 86400), ("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= length:
            return f"{seconds // length}{unit}"
    return f"{seconds}s"


def _to_unicode(text: str) -> str:
    """Return the text with bytes that are not UTF-8 replaced, so that every JSON parser accepts it."""
    return os.fsencode(text).decode(errors="replace")
