"""Remove old runs of a job, or some of their checkpoints. Lists them first, with age and size.

Exit:  0, or 1 if something could not be removed, or 2 for an invalid option.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from ..engines.artifact_location import RUN_ID, Place
from ..engines.engine import Engine
from ..run_folder.removal import original_name, remove_own_folder
from ..run_folder.run import Run, is_mine, owner_name, quote_shell_word
from ..system.command_line import Parser
from ..system.failure import Failure, print_failure
from ..system.text import print_line
from ..system.untrusted_files import Unreadable, open_regular
from ..system.values import number_or_none, read_keys
from .old_checkpoints import find_removable_checkpoints
from .run_rows import DiskUse, format_age, format_size, measure_disk_use

MOST_STATE_BYTES = 65536  # size limit of a state/run file, which names the checkpoint that the run started from


class FolderToRemove(NamedTuple):
    """A folder to remove. run: the run to which it belongs, or None for a leftover of a killed clean"""

    path: Path
    run: Run | None


def main(argv: list[str]) -> int:
    place = Place.of_this_program()
    engine = place.watching_engine()
    options = parser(engine).parse_args(argv)
    old_runs, spared = find_old_runs(place, engine, _parse_keep_count(options.keep, place))
    for line in spared:
        print_line(line)
    removals = _leftover_folders(place.job.runs)
    size = _total_size(removals)
    for run in old_runs:
        folders = _select_folders(engine, run, options.keep_checkpoints)
        if folders:
            names = f": {' '.join(folder.path.name for folder in folders)}" if options.keep_checkpoints else ""
            run_size = _total_size(folders)
            about = f"{_format_run_age(run):>6} old  {_format_bytes(run_size):>6}  {engine.state(run).text}"
            print_line(f"{run.id:<22}  {about}{names}")
            size += run_size
            removals += folders
    if not removals:
        print_line("nothing to remove")
        return 0
    print_line(f"total {_format_bytes(size)}")
    if not (options.yes or _ask_for_confirmation()):
        print_line("nothing was removed; --yes removes these")
        return 0
    with contextlib.closing(engine):
        return max([_remove_unless_restarted(place, engine, removal) for removal in removals])


def parser(engine: Engine) -> Parser:
    summary = "Remove old runs of a job, or some of their checkpoints. Lists them first, with age and size."
    words = Parser("clean", summary)
    text = (
        "keep the N newest runs of this user; default: keep_runs in the spec. A run is always kept if it may still be"
        " running, or if another run started from its checkpoint"
    )
    words.add_argument("--keep", metavar="N", default="", help=text)
    words.set_defaults(keep_checkpoints=False)
    if engine.has_files_here:
        text = "also keep older runs, each with only its newest intact checkpoint and its best one"
        words.add_argument("--keep-checkpoints", action="store_true", help=text)
    text = "remove the runs without asking; by default, jobctl asks in a terminal and otherwise only lists them"
    words.add_argument("--yes", action="store_true", help=text)
    return words


def _parse_keep_count(text: str, place: Place) -> int:
    """Return how many runs to keep. keep_runs=0 in the spec means that no number is set. Raises Failure."""
    keep = text or str(place.settings.get("keep_runs") or "")
    if not keep:
        raise Failure("the number of runs to keep is not set", "jobctl clean --keep 5, or keep_runs=5 in the spec", 2)
    if not re.fullmatch("[0-9]{1,9}", keep):
        raise Failure(f"--keep takes a number, not {keep}", "", 2)
    return int(keep)


# ---- which runs may be removed


def find_old_runs(place: Place, engine: Engine, keep: int) -> tuple[list[Run], list[str]]:
    """Return this user's finished runs of this job, newest first, except the newest `keep`; and lines that explain why
    others are kept. Incomplete runs are not mentioned.
    """
    runs, spared, finished = [], [], []
    for run in place.list_runs():
        if not run.is_mine:  # another user's run does not count as one of the newest
            spared.append(f"run {run.id} is kept: it belongs to {owner_name(run.path)}")
        elif keep > 0:
            keep -= 1
        elif read_keys(run.path / "state/run").get("job", "") == place.job.name:
            runs.append(run)
    folders = [folder for run in runs for folder in engine.folders_removed_together(run)]
    engine.fetch("state", folders)
    engine.query_runs(folders)
    for run in runs:
        is_own = place.own_run is not None and place.own_run.path == run.path
        why = "this jobctl belongs to that run" if is_own else _keep_reason(engine, run)
        if why:
            spared.append(f"run {run.id} is kept: {why}")
        else:
            finished.append(run)
    return _exclude_origins(engine, finished, spared)


def _keep_reason(engine: Engine, run: Run) -> str:
    try:
        return next(filter(None, map(engine.why_not_removable, engine.folders_removed_together(run))), "")
    except Failure as failure:
        print_failure(failure)
        return "the state of the run cannot be read"


def _exclude_origins(engine: Engine, finished: list[Run], spared: list[str]) -> tuple[list[Run], list[str]]:
    """Return find_old_runs()'s result without the runs whose checkpoint a kept run started from."""
    removed_folders = {run.path for run in finished}
    folders = {run.id: [folder.path for folder in engine.folders_removed_together(run)] for run in finished}
    jobs = {path.parent for paths in folders.values() for path in paths}
    origins = {origin for job in jobs for origin in _origins_of_kept_runs(job, removed_folders)}
    removable = []
    for run in finished:
        if any(os.fsencode(path) in origins for path in folders[run.id]):
            spared.append(f"run {run.id} is kept: another run started from its checkpoint")
        else:
            removable.append(run)
    return removable, spared


def _origins_of_kept_runs(runs: Path, removed_folders: set[Path]) -> Iterator[bytes]:
    """Yield the origins of the runs that are kept in a job's folder."""
    with contextlib.suppress(OSError), os.scandir(runs) as entries:
        others = [
            entry.path
            for entry in entries
            if not entry.name.startswith(".") and Path(entry.path) not in removed_folders
        ]
        for path in others:
            with contextlib.suppress(Unreadable, OSError), open_regular(f"{path}/state/run", follow=False) as file:
                lines = file.read(MOST_STATE_BYTES).split(b"\n")
                yield from (line[len(b"init_from=") :] for line in lines if line.startswith(b"init_from="))


# ---- what to remove


def _select_folders(engine: Engine, run: Run, only_checkpoints: bool) -> list[FolderToRemove]:
    """Return what to remove for a run: all folders removed together with it, or only the old checkpoints in them."""
    folders = engine.folders_removed_together(run)
    if not only_checkpoints:
        return [FolderToRemove(folder.path, folder) for folder in folders]
    wanted = []
    for folder in folders:
        removable, unread = find_removable_checkpoints(folder.path)
        for path in unread:
            print(f"warning: {quote_shell_word(str(path))} cannot be read, so it is kept", file=sys.stderr)
        wanted += [FolderToRemove(path, folder) for path in removable]
    return wanted


def _total_size(folders: Sequence[FolderToRemove]) -> int:
    return sum(measure_disk_use(folder.path, sys.maxsize).bytes for folder in folders)


def _format_bytes(size: int) -> str:
    return format_size(DiskUse(size, True))


def _format_run_age(run: Run) -> str:
    created = number_or_none(read_keys(run.path / "state/run").get("created", ""))
    return "?" if created is None else format_age(time.time() - created)


def _leftover_folders(runs: Path) -> list[FolderToRemove]:
    """Return hidden run folders left behind by a killed clean."""
    try:
        with os.scandir(runs) as entries:
            names = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError:
        return []
    hidden = [runs / name for name in names if RUN_ID.fullmatch(original_name(name))]
    return [FolderToRemove(path, None) for path in hidden if is_mine(path)]


# ---- removal


def _ask_for_confirmation() -> bool:
    if not (sys.stdin and sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    print("remove these permanently? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.buffer.readline()[:1] in (b"y", b"Y")


def _remove_unless_restarted(place: Place, engine: Engine, removal: FolderToRemove) -> int:
    """Remove a folder, unless its run was restarted after the folder was listed. Return an exit code."""
    run = removal.run
    try:
        if run is not None:
            engine_now, (run_now,) = engine.query_again([run])
            if engine_now.why_not_removable(run_now):
                print_line(f"run {run.id} is kept: it was started again")
                return 0
        if run is not None and removal.path == run.path and not engine.remove_outside_run_folder(run):
            raise OSError
        remove_own_folder(removal.path)
    except Failure as failure:
        print_failure(failure)
        return 1
    except OSError as error:
        why = f": {error.strerror}" if error.strerror else ""
        print(f"error: cannot remove {quote_shell_word(str(removal.path))}{why}", file=sys.stderr)
        return 1
    parents = [folder for folder in (place.job.runs, place.job.runs.parent) if folder in removal.path.parents]
    print_line(f"removed {removal.path.relative_to(parents[0]) if parents else removal.path}")
    return 0
