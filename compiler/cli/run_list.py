"""Find run folders and list them in a table, for `jobc ls`.

In:  folders, each of which is a run root, a job folder or a run.
Out: a table with at least 80 columns.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path

from ...runtime.engines.artifact_location import RUN_ID, is_complete_run
from ...runtime.engines.engine import State
from ...runtime.run_folder.run import Run
from ...runtime.verbs.run_rows import MOST_FILES, RunRow, format_age, format_size, measure_disk_use

RECORDED_STATES = (  # states that `jobc ls` prints, explained in tools/pages/ls.py
    "not started", "submitted", "live", "stopping", "done", "stopped", "stopped early", "failed", "of another user",
    "incomplete", "other layout",
)  # fmt: skip
INCOMPLETE = State("incomplete", "jobctl submit was killed while it created the run, or is still running")
OTHER_LAYOUT = State("other layout", "created by another version of jobc, which can read it")


# ---- finding runs


class ListedRun(Run):
    """A run folder that is read only once. flaw: State that says why it cannot be read, or None for a complete run"""

    def __init__(self, path: Path, flaw: State | None) -> None:
        super().__init__(path)
        self.flaw = flaw
        self._created = super().created()

    @cached_property
    def attempt(self) -> int | None:
        """Number of the newest attempt, or None if there is none."""
        return super().attempt

    def created(self) -> float:
        return self._created


def find_runs(folders: Iterable[Path]) -> list[ListedRun]:
    """Return the run folders in run roots and job folders, newest first, without duplicates. Raises OSError."""
    found: dict[Path, ListedRun] = {}
    for folder in folders:
        folder = Path(os.path.realpath(folder))
        candidates = [folder] if _inspect_folder(folder) else _list_subfolders(folder)
        for candidate in candidates:
            own = _inspect_folder(candidate)
            for run in [own] if own else _runs_of_job(candidate):
                found.setdefault(run.path, run)
    return sorted(found.values(), key=lambda run: (run.created(), run.path), reverse=True)


def _runs_of_job(folder: Path) -> Iterator[ListedRun]:
    try:
        names = _list_subfolders(Path(os.path.realpath(folder)))
    except OSError:
        return  # belongs to another user, or was removed after it was listed
    yield from filter(None, map(_inspect_folder, names))


def _list_subfolders(folder: Path) -> list[Path]:
    with os.scandir(folder) as entries:
        return [folder / entry.name for entry in entries if entry.name[0] != "." and entry.is_dir()]


def _inspect_folder(folder: Path) -> ListedRun | None:
    """Return the run in a folder, or None if another program created the folder."""
    if is_complete_run(folder):
        return ListedRun(folder, None)
    if RUN_ID.fullmatch(folder.name) is None or folder.is_symlink():
        return None
    if os.path.isfile(folder / ".making"):
        return ListedRun(folder, INCOMPLETE)
    has_parts = os.path.isdir(folder / "artifact") or os.path.isfile(folder / "state/run")
    return ListedRun(folder, OTHER_LAYOUT) if has_parts else None


# ---- the table


HEADINGS = ("NAME", "RUN", "BACKEND", "STATE", "STEP", "LOSS", "AGE", "SIZE")
RIGHT = ("STEP", "LOSS", "AGE", "SIZE")
# minimum widths, in the order in which columns are narrowed; 0 drops the column
SHRINK = (("NAME", 12), ("BACKEND", 0), ("NAME", 6), ("RUN", 20))
LEAST_WIDTH = 80
MOST_LOSS_WIDTH = 10


def format_run_table(rows: Sequence[RunRow], width: int, now: float) -> list[str]:
    """Return the lines of a table at most `width` columns wide, or 80 if `width` is less.

    If the table is too wide, long names are truncated first, with `~` at the end, and then the backend is dropped. Run
    IDs are truncated last, because other commands require them. now: seconds since the epoch
    """
    most_files = MOST_FILES // max(1, len(rows))
    cells = [HEADINGS, *(_format_cells(row, most_files, now) for row in rows)]
    columns = {heading: [line[index] for line in cells] for index, heading in enumerate(HEADINGS)}
    for heading, least in SHRINK:
        excess = _table_width(columns) - max(width, LEAST_WIDTH)
        if excess > 0 and least == 0:
            del columns[heading]
        elif excess > 0:
            most = max(least, _longest_length(columns[heading]) - excess)
            columns[heading] = [text if len(text) <= most else f"{text[: most - 1]}~" for text in columns[heading]]
    padded = [
        [f"{text:{'>' if heading in RIGHT else ''}{longest}}" for text in texts]
        for heading, texts in columns.items()
        for longest in [_longest_length(texts)]
    ]
    return ["  ".join(column[line] for column in padded).rstrip() for line in range(len(cells))]


def _longest_length(texts: Iterable[str]) -> int:
    return max(map(len, texts))


def _table_width(columns: dict[str, list[str]]) -> int:
    return sum(map(_longest_length, columns.values())) + 2 * (len(columns) - 1)


def _format_cells(row: RunRow, most_files: int, now: float) -> tuple[str, ...]:
    state = "other user" if row.state.name == "of another user" else row.state.name
    size = format_size(measure_disk_use(row.run.path, most_files)) if row.is_read else "-"
    step = "-" if row.step is None else str(row.step) if row.step < 10**8 else f"{row.step:.2e}"
    loss = "-" if row.loss is None else f"{row.loss:.4g}"
    loss = loss if len(loss) < MOST_LOSS_WIDTH else f"{row.loss:.1e}"
    age = format_age(now - row.started) if row.started > 0 else "-"
    return (ascii(row.job)[1:-1], row.run.id, row.backend or "-", state, step, loss, age, size)
