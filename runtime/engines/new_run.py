"""Create a run folder, or a run's next attempt. If the program ends before keep() is called, everything is removed.

In:  a Place; for the next attempt, also a Run that find_run_to_continue() in run_to_continue.py has checked.
Out: RUN/artifact/ATTEMPT (a read-only copy of the artifact, or a link to an earlier one), RUN/state/run, RUN/logs,
     RUN/control. If it raises Failure, it leaves nothing behind.

While RUN/.making exists, the process named in it is creating the run, or was killed before it finished.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TypeVar

from ..run_folder.artifact_copies import copy_read_only, link_previous_copy_if_equal
from ..run_folder.removal import remove_folder, remove_own_folder
from ..run_folder.run import (
    RecordedProcess,
    Run,
    is_mine,
    jobctl_command,
    owner_name,
    quote_shell_word,
)
from ..run_folder.submitted_values import NO_VALUES, SubmittedValues
from ..system.failure import Failure
from ..system.private_folder import is_replaceable_only_by_user, private_folder
from ..system.processes import identify_this_process
from .artifact_location import RUN_ID, Place, is_complete_run
from .engine import Engine
from .live_runs import live_run_ids
from .run_to_continue import describe_differences

MAKING = ".making"
MOST_TRIES = 5  # attempts to find a free run ID, of which two submits in one second may draw the same
SPACE_HINT = "check permissions and free space, or set JOBC_RUN_ROOT to another folder"
Returned = TypeVar("Returned")


class NewRun:
    """A run that is being created or continued. Use as a context manager.

    run, attempt: the run's folder and the attempt's number.
    """

    def __init__(self, place: Place, engine: Engine, run: Run, attempt: int) -> None:
        self.place, self.engine, self.run, self.attempt = place, engine, run, attempt
        self._unfinished: Path | None = None

    def __enter__(self) -> NewRun:
        return self

    def __exit__(self, *_: object) -> None:
        self.discard()

    @property
    def artifact(self) -> Path:
        """Return the copy of the artifact from which this attempt starts."""
        return self.run.path / "artifact" / str(self.attempt)

    def keep(self) -> None:
        """Keep the run when the program ends, and record the command that resumes it."""
        resume = self.run.path / "state/resume"
        with contextlib.suppress(FileNotFoundError):
            resume.unlink()
        new_code = "new_code=yes\n" if self._can_replace_code() else ""  # so that a crash can be fixed
        _write_file(resume, f"command={self.engine.resume(self.run)}\n{new_code}")
        self._unfinished = None

    def _can_replace_code(self) -> bool:
        run = self.run.path
        return (
            self.engine.can_replace_code and os.path.isdir(run / "code") and not os.path.lexists(run / "state/mirror")
        )

    def print_started(self, what: str) -> None:
        """Print the run's ID and what was started, then the commands that follow and stop it.

        what: the text after the ID, such as ` in FOLDER` or `: job 12`
        """
        print(f"run {self.run.id}{what}")
        print(f"  follow: {jobctl_command(self.artifact, 'logs')} --follow")
        print(f"  stop:   {jobctl_command(self.artifact, 'stop')}", flush=True)

    def keep_for_logs(self) -> None:
        """Keep the folder when the program ends, so that its logs can be read."""
        self._unfinished = None

    def discard(self) -> None:
        """Remove what was created, unless keep() was called."""
        created, self._unfinished = self._unfinished, None
        if created is None:
            return
        if created.is_symlink():
            created.unlink()
        elif created.is_dir():
            remove_folder(created)

    def write_description(self, init_from: str, values: SubmittedValues = NO_VALUES) -> None:
        """Write the run's description; from then on, the folder is a run.

        init_from: run whose checkpoint it starts from, if any. values: the values passed to `jobctl submit`.
        """
        for name in ("state", "logs", "control"):
            _create_folder(self.run.path / name)
        job = self.place.job.name
        keys = {"job": job, "created": int(time.time()), "project": self.place.project, "init_from": init_from}
        if self.place.sweep is None and self.place.own_run is None:
            keys["artifact"] = self.place.artifact
        keys.update(values.keys())
        keys["key"] = os.urandom(8).hex()  # distinguishes this run from others at the same path (run_secrets.py)
        _write_keys(self.run.path / "state/run", keys)
        with contextlib.suppress(FileNotFoundError):
            (self.run.path / MAKING).unlink()

    def create_folder(self, run_id: str) -> None:
        """Create the run folder with that ID, or with a new one."""
        if run_id:
            _remove_abandoned(self.place.job.runs / run_id)
        for _ in range(MOST_TRIES):
            new_id = f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{os.urandom(2).hex()}"
            folder = self.place.job.runs / (run_id or new_id)
            try:
                folder.mkdir()
            except FileExistsError:
                if run_id:
                    break
            except OSError as error:
                raise _failure_for_error(f"create the folder {folder}", error) from error
            else:
                self.run, self._unfinished = Run(folder), folder
                return _write_keys(folder / MAKING, identify_this_process())
        raise _existing_run_failure(folder)

    def create_temporary_folder(self, parent: Path) -> None:
        """Create a run folder with a random name."""
        path = _call_or_fail(
            f"create a folder in {parent}", lambda: tempfile.mkdtemp(prefix=".jobc-smoke.", dir=parent)
        )
        self.run = Run(Path(os.path.realpath(path)))
        self._unfinished = self.run.path

    def copy_artifact(self) -> None:
        """Copy this artifact, read-only, for the attempt; or link the previous attempt's copy if it is identical."""
        _create_folder(self.artifact.parent)
        if link_previous_copy_if_equal(self.run.path, self.attempt, self.place.artifact):
            self._unfinished = self._unfinished or self.artifact
            return
        part = self.artifact.parent / f".{self.attempt}.{os.getpid()}"  # a partial copy never gets the final name
        _call_or_fail(f"create the folder {part}", part.mkdir)
        self._unfinished = self._unfinished or part
        _call_or_fail(f"copy the artifact to {part}", lambda: copy_read_only(self.place.artifact, part))
        try:
            if os.path.lexists(self.artifact):
                raise FileExistsError
            part.rename(self.artifact)
        except OSError as error:
            if os.path.lexists(self.artifact):
                why = f"another jobctl submit is already starting attempt {self.attempt} of run {self.run.id}"
                raise Failure(why) from error
            raise _failure_for_error(f"create the folder {self.artifact}", error) from error
        if self._unfinished == part:
            self._unfinished = self.artifact


def create_run(place: Place, engine: Engine, run_id: str = "") -> NewRun:
    """Create a new run folder with its copy of the artifact. write_description() completes it. Raises Failure."""
    if run_id and not RUN_ID.fullmatch(run_id):
        raise Failure(
            f"{run_id} is not a run ID", "a run ID consists of letters, digits, dots, dashes and underscores", 2
        )
    runs = place.job.runs
    if not runs.parent.exists():
        _create_folder(runs.parent)
        _write_file(runs.parent / ".gitignore", "*\n")
    _create_folder(runs)
    place.job.runs = Path(os.path.realpath(runs))
    _warn_of_live_runs(place, engine)
    new = NewRun(place, engine, Run(place.job.runs), 0)
    with _discarded_on_error(new):
        new.create_folder(run_id)
        new.copy_artifact()
    return new


def temporary_run(place: Place, engine: Engine, folder: Path | None = None) -> NewRun:
    """Create a run for a trial. The run is removed when the program ends, unless keep_for_logs() is called. Raises
    Failure.

    folder: a parent folder that the nodes can access. The default is this user's temporary folder.
    """
    parent = folder or Path(os.environ.get("TMPDIR") or "/tmp")
    new = NewRun(place, engine, Run(parent), 0)
    with _discarded_on_error(new):
        if folder is not None:
            _create_folder(folder)
        if folder is None and parent.is_dir() and not is_replaceable_only_by_user(parent):
            parent = _call_or_fail(f"create a folder in {parent}", lambda: private_folder("smoke"))
        new.create_temporary_folder(parent)
        new.copy_artifact()
        new.write_description("")
    return new


def create_next_attempt(place: Place, engine: Engine, run: Run, new_code: bool) -> NewRun:
    """Create the next attempt of a run. new_code: whether the caller will copy the code again. Raises Failure."""
    last = run.attempt or 0
    new = NewRun(place, engine, run, last + 1)
    with _discarded_on_error(new):
        new.copy_artifact()
        changed = describe_differences(run, last, place.artifact, "spec")
        if changed:
            print(f"changed since attempt {last}:\n{changed}")
            _write_file(run.path / "state/changes", f"attempt {new.attempt}\n{changed}\n", os.O_APPEND)
        _note_code(new, new_code)
        with contextlib.suppress(FileNotFoundError):
            (run.path / "control/STOP").unlink()
    return new


def _note_code(new: NewRun, new_code: bool) -> None:
    run = new.run
    has_code = (run.path / "code").is_dir()
    if new_code and not has_code:
        raise Failure(f"run {run.id} has no copy of the code, so --new-code has no effect", code=2)
    if new_code and os.path.lexists(run.path / "state/mirror"):
        why = "with storage.run=node, the code is on the hosts, so --new-code cannot replace it"
        raise Failure(why, "jobctl submit without --resume starts a new run with the current code", 2)
    if new_code:
        _write_file(run.path / "state/changes", f"attempt {new.attempt}\n  code: copied again\n", os.O_APPEND)
    elif has_code:
        more = "; --new-code copies it again" if new.engine.can_replace_code else ""
        print(f"using the code copied at the first start, in {quote_shell_word(str(run.path / 'code'))}{more}")


# ---- the folder of a new run


def _warn_of_live_runs(place: Place, engine: Engine) -> None:
    """Warn if this user has live runs of this job: jobctl submit may have been called twice by mistake."""
    with contextlib.suppress(Failure):
        if live := live_run_ids(engine, place.list_runs()):
            why = f"job {place.job.name} already has a live run: {', '.join(live)}; this submit starts another"
            print(f"warning: {why} (to stop a run: jobctl stop --run ID)", file=sys.stderr)


def _remove_abandoned(folder: Path) -> None:
    """If one of this user's runs was left incomplete by a killed jobctl submit, remove it, to free its ID."""
    making = folder / MAKING
    if is_complete_run(folder) or making.is_symlink() or not making.is_file() or not is_mine(folder):
        return
    if RecordedProcess(making).status(partial(_silent_s, making)) in ("dead", "silent"):
        try:
            remove_own_folder(folder)
        except OSError as error:
            raise Failure(f"cannot remove {folder}, left behind by a jobctl submit that was killed") from error


def _silent_s(making: Path) -> float | None:
    """Return how many seconds ago the file was written, by the storage's clock, or None if unknown."""
    now = making.with_name(".now")
    try:
        _write_file(now, "")
        return now.stat().st_mtime - making.stat().st_mtime
    except (Failure, OSError):
        return None


def _existing_run_failure(folder: Path) -> Failure:
    if not is_mine(folder):
        hint = "choose another --run-id; for a point of a sweep, submit the whole sweep again"
        return Failure(f"{folder} exists, and belongs to {owner_name(folder)}", hint)
    if is_complete_run(folder):
        hint = f"resume that run with jobctl submit --resume {folder.name}"
        return Failure(f"run {folder.name} already exists", hint)
    hint = "choose another --run-id; or remove this folder, unless another jobctl submit is creating it"
    return Failure(f"{folder} exists, but is not a run that jobctl can resume", hint)


# ---- files


def _create_folder(folder: Path) -> None:
    _call_or_fail(f"create the folder {folder}", lambda: folder.mkdir(parents=True, exist_ok=True))


def _call_or_fail(what: str, action: Callable[[], Returned]) -> Returned:
    try:
        return action()
    except OSError as error:
        raise _failure_for_error(what, error) from error


def _failure_for_error(what: str, error: OSError) -> Failure:
    return Failure(f"cannot {what}: {error.strerror or error}", SPACE_HINT)


def _write_file(path: Path, text: str, open_flag: int = os.O_TRUNC) -> None:
    """Create the file or replace its content; with O_APPEND, append to it. Follows no links. Raises Failure."""
    flags = open_flag | os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        with open(os.open(path, flags, 0o666), "wb") as file:
            file.write(os.fsencode(text))
    except OSError as error:
        raise Failure(f"cannot write {path}: {error.strerror}", "check permissions and free space") from error


def _write_keys(path: Path, keys: Mapping[str, object]) -> None:
    _write_file(path, "".join(f"{key}={value}\n" for key, value in keys.items()))


@contextlib.contextmanager
def _discarded_on_error(new: NewRun) -> Iterator[None]:
    try:
        yield
    except BaseException:
        new.discard()
        raise
