"""Find the run that jobctl submit --resume names, and check that this user and this artifact may continue it.

In:  a Place, and the run's ID
Out: a Run. It raises Failure if the run is live, if the identity of this artifact differs from that of the run, or if
     an entry of the run folder is neither a file nor a folder.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from ..exit_codes import DATA_BROKEN
from ..run_folder.artifact_copies import JOB_FILE, copy_number_by_attempt
from ..run_folder.run import Run
from ..system.failure import Failure
from ..system.text import printable
from ..system.values import read_artifact_json
from .artifact_location import Place, require_own_run
from .engine import Engine

WRITTEN = ("state", "exit", "logs", "metrics", "control", "starts")  # folders to which the next attempt writes
TORCHRUN_LOGS = "logs/torchrun"  # torchrun creates links in this folder, and writes to a new subfolder each time
MODEL_KEYS = ("  model.", "  model:")


def find_run_to_continue(place: Place, engine: Engine, named: str) -> Run:
    """Return the run to continue. Raises Failure if this user or this artifact may not continue it."""
    run = require_own_run(place.choose_run(named))
    if irregular := _find_irregular_entry(run.path):
        title = f"{irregular} in run {run.id} is not a regular file"
        raise Failure(title, "remove that file, then resume; jobc did not create it", DATA_BROKEN)
    state = engine.state_now(run)
    if state.name == "unknown":
        raise Failure(state.reason or state.text, "try again when the engine responds")
    if state.is_live:
        title = f"run {run.id} is {state.name}{run.describe_remote_node()}"
        hint = "stop the run with jobctl stop, or start a new run with jobctl submit without --resume"
        raise Failure(title, "the run starts by itself when nodes are free" if state.name == "queued" else hint)
    _require_same_identity(place, run)
    if state.name == "done":
        print(f"run {run.id} is done: attempt {(run.attempt or 0) + 1} runs the program again")
    return run


def _require_same_identity(place: Place, run: Run) -> None:
    changed = describe_differences(run, run.attempt or 0, place.artifact, "identity")
    if not changed:
        return
    hint = f"jobctl submit --fork {run.id} starts a new run with its weights"
    if any(line.startswith(MODEL_KEYS) for line in changed.split("\n")):
        hint = "without --resume, jobctl submit starts a new run; --fork needs weights of the same model"
    raise Failure(f"this spec differs from that of run {run.id}:\n{changed}", hint, DATA_BROKEN)


def describe_differences(run: Run, attempt: int, artifact: Path, name: str) -> str:
    """Return a line `  KEY: OLD -> NEW` for each `KEY = VALUE` that differs between the two artifacts.

    name: record in job.json, identity or spec. Raises Failure if one artifact has no such record.
    """
    old, new = (
        dict(line.partition(" = ")[::2] for line in _read_job_lines(folder, name))
        for folder in (run.path / "artifact" / str(attempt), artifact)
    )
    lines = [
        f"  {key}: {old.get(key, '(not set)')} -> {new.get(key, '(not set)')}"
        for key in sorted({*old, *new})
        if old.get(key) != new.get(key)
    ]
    return printable("\n".join(lines))


def _read_job_lines(artifact: Path, name: str) -> list[str]:
    lines = read_artifact_json(artifact / JOB_FILE).get(name)
    if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
        title = f"{artifact} was compiled by an earlier jobc: its {JOB_FILE} has no {name}"
        raise Failure(title, "without --resume, jobctl submit starts a new run", DATA_BROKEN)
    return lines


def _find_irregular_entry(run: Path) -> str:
    """Return the path, relative to the run, of an entry to which the next attempt would write although it is neither a
    file nor a folder, or "" if there is none. A named pipe would block the attempt. Through a symbolic link, the
    attempt could write to any of this user's files. In artifact/, only jobc's own links count as folders.
    """
    copies = {f"artifact/{attempt}" for attempt in copy_number_by_attempt(run)}
    for path, mode in _walk_entries(run / "artifact", "artifact", 1):
        if path not in copies and not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            return path
    for name in WRITTEN:
        for path, mode in _walk_entries(run / name, name, 2):
            if not path.startswith(f"{TORCHRUN_LOGS}/") and not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                return path
    for pattern in ("state/node_*", "state/resume", "state/run", "logs/*.log", "metrics/*.jsonl"):
        for file in sorted(run.glob(pattern)):
            if not stat.S_ISREG(file.lstat().st_mode):
                return file.relative_to(run).as_posix()
    return ""


def _walk_entries(folder: Path, name: str, depth: int) -> Iterator[tuple[str, int]]:
    """Yield the path and mode of a folder and of everything in it, `depth` levels deep. Follows no links."""
    try:
        mode = folder.lstat().st_mode
        yield name, mode
        names = sorted(os.listdir(folder)) if depth and stat.S_ISDIR(mode) else []
    except OSError:
        return
    for entry in names:
        yield from _walk_entries(folder / entry, f"{name}/{entry}", depth - 1)
