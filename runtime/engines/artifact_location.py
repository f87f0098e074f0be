"""Find an artifact's job, its run root, and its runs.

In:  the folder that contains jobctl and .jobc/job.json; JOBC_RUN_ROOT; and, if the artifact was moved, the working
     directory.
Out: a Job and its Runs, or Failure.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from ..run_folder.artifact_copies import JOB_FILE
from ..run_folder.run import Run, is_mine, owner_name
from ..system.failure import Failure
from ..system.untrusted_files import is_file_name, is_nonnegative_integer
from ..system.values import read_artifact_json, read_keys
from .engine import Engine, Job

RUN_ID = re.compile("[A-Za-z0-9][A-Za-z0-9._-]*")
MOST_NODES = 100_000  # as in a spec
# characters that terminals interpret, except tab, which is treated as a space
_CONTROL = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


class Place:
    """Location of an artifact and its runs."""

    def __init__(self, artifact: Path, sweep: Place | None = None) -> None:
        """sweep: the sweep's directory, if the artifact is one of its points in a temporary folder"""
        self.artifact, self.sweep = Path(os.path.realpath(artifact)), sweep
        self.settings = read_artifact_json(self.artifact / JOB_FILE)
        if not _describes_job(self.settings):
            is_missing = not os.path.isfile(self.artifact / JOB_FILE)
            title = f"{self.artifact / JOB_FILE} {'is missing' if is_missing else 'does not describe a job'}"
            move = "move the folder elsewhere and compile the job again"
            raise Failure(title, move if is_missing else "compile the job again with --force")
        name, root = self.settings["job"], self.settings["runs"]
        own_run = self.artifact.parent.parent  # the artifact is RUN/artifact/ATTEMPT
        self.own_run = Run(own_run) if sweep is None and os.path.isfile(own_run / "state/run") else None
        self.is_moved = False
        self.project: Path = self._project_folder() if sweep is None else sweep.project
        is_elsewhere = self.is_moved or bool(os.environ.get("JOBC_RUN_ROOT"))
        if sweep is not None:
            is_elsewhere = sweep.job.is_elsewhere
            runs = sweep.job.runs.parent / name
        elif self.own_run is not None:
            runs = own_run.parent
            is_elsewhere = is_elsewhere or os.path.realpath(self.project / root / name) != str(runs)
        else:
            runs = Path.cwd() / (os.environ.get("JOBC_RUN_ROOT") or self.project / root) / name
        for folder in (self.project, runs):
            if _CONTROL.search(str(folder)):
                raise Failure(f"the folder's name has a control character: {str(folder)!r}", "rename the folder", 2)
        if self.is_moved:
            print(f"this artifact was moved; its runs are in {runs}", file=sys.stderr)
        runs = Path(os.path.realpath(runs)) if os.path.isdir(runs) else runs
        self.job: Job = Job(name, self.artifact, runs, self.settings, is_elsewhere)
        self.job.project = str(self.project)
        self.job.compiled_artifact = self._compiled_artifact()

    @classmethod
    def of_this_program(cls) -> Place:
        """Return the artifact whose jobctl is this program."""
        return cls(Path(sys.argv[0]).parent)

    def _project_folder(self) -> Path:
        """Return the folder that contains artifacts/, or the working directory if the artifact was moved."""
        if self.own_run is not None:
            return Path(read_keys(self.own_run.path / "state/run").get("project", "/"))
        if len(self.artifact.parts) > 4 and str(self.artifact).endswith(f"/{self.settings.get('place', '')}"):
            return self.artifact.parents[2]
        self.is_moved = True
        if Path.cwd() == Path("/"):
            raise Failure("this artifact was moved, and / is not a project folder", "cd to your project folder")
        return Path.cwd()

    def _compiled_artifact(self) -> Path | None:
        """Return the artifact directory of which this is a run's copy, if it exists and is this user's."""
        if self.own_run is None:
            return None
        artifact = Path(read_keys(self.own_run.path / "state/run").get("artifact", ""))
        position = self.settings.get("place", "")
        is_same = read_artifact_json(artifact / JOB_FILE).get("place") == position
        is_moved = self.project / artifact.parent.parent.name / position != artifact
        return artifact if is_same and not is_moved and is_mine(artifact / "jobctl") else None

    def engine(self) -> Engine:
        """Return the backend's engine, which is packed in the artifact, or the base engine if the backend has none."""
        try:
            module = import_module("jobc_engine")
        except ModuleNotFoundError:
            return Engine(self.job)
        engine: Engine = module.ENGINE(self.job)
        return engine

    def watching_engine(self) -> Engine:
        """Return the backend's engine, or the engine for all points if the artifact is a sweep."""
        engine = self.engine()
        if not self.is_sweep:
            return engine
        from .sweep_engine import SweepEngine  # packed only in a sweep's jobctl

        return SweepEngine(engine)

    def location_of_point(self, named: str, named_run: str) -> Place:
        """Return the artifact in a point's run. named_run: the sweep's run, or "" for the newest. Raises Failure."""
        from ..run_folder.points_file import read_points  # these two are packed only in a sweep's jobctl
        from .sweep_engine import SweepEngine

        sweep = self.choose_run(named_run)
        number = read_points(sweep.path / f"artifact/{sweep.attempt}").find_point(named).number
        run = SweepEngine(self.engine()).points_of_run(sweep)[number].run
        if not is_complete_run(run.path):
            title = f"point {number} of sweep {sweep.id} has no run: it has not been started, or its run was removed"
            raise Failure(title, f"jobctl submit --point {number} starts it")
        return Place(require_own_run(run, "use it").path / f"artifact/{run.attempt}")

    @property
    def is_sweep(self) -> bool:
        return bool(self.settings.get("sweep"))

    def create_runs_folder(self) -> Path:
        """Create the folder of the job's runs if it is missing, and return it. Raises Failure."""
        try:
            self.job.runs.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            hint = "check permissions and free space, or set JOBC_RUN_ROOT to another folder"
            raise Failure(f"cannot create the folder {self.job.runs}: {error.strerror}", hint) from error
        return self.job.runs

    def list_runs(self) -> list[Run]:
        """Return all runs of the job, newest first."""
        try:
            names = os.listdir(self.job.runs)
        except OSError:
            return []
        runs = [Run(self.job.runs / name) for name in names if is_complete_run(self.job.runs / name)]
        return sorted(runs, key=lambda run: (run.created(), run.id), reverse=True)

    def has_runs(self) -> bool:
        """Return whether this artifact is part of a run, or this user has runs of the job."""
        return self.own_run is not None or any(run.is_mine for run in self.list_runs())

    def choose_run(self, named: str) -> Run:
        """Return the run with that ID or folder. If `named` is empty, return the run that contains this artifact or,
        if there is none, this user's newest run. Raises Failure.
        """
        runs = self.job.runs
        if named:
            for candidate in (runs / named, Path(named)):
                if is_complete_run(candidate):
                    return Run(Path(os.path.realpath(candidate)))
            if os.path.isfile(runs / named / ".making") and is_mine(runs / named):
                why = "jobctl submit was killed while it created the run, or is still running"
                hint = f"jobctl submit --run-id {named} creates the run again"
                raise Failure(f"run {named} is incomplete: {why}", hint)
            raise Failure(f"job {self.job.name} has no run {named} in {runs}", "jobctl status --all lists them")
        if self.own_run is not None:
            return self.own_run
        all_runs = self.list_runs()
        for run in all_runs:
            if run.is_mine:
                return run
        title = f"job {self.job.name} has no run in {runs}"
        hint = "jobctl submit creates a run; JOBC_RUN_ROOT sets the run root"
        if self.is_sweep:  # only jobctl submit creates a run that contains all points
            hint += "; for points started by sbatch or --point: jobc ls"
        if all_runs:
            newest = all_runs[0]
            owner = owner_name(newest.path)
            title = f"you have no run of job {self.job.name} in {runs}; the newest run belongs to {owner}"
            hint = f"to select it: --run {newest.id}; jobctl status --all lists all runs"
        raise Failure(title, hint)


def _describes_job(settings: Mapping[str, Any]) -> bool:
    """Return whether a job.json, which may be edited or forged, has the types on which the engines rely."""
    hosts = settings.get("hosts", {})
    if not isinstance(hosts, dict):
        return False
    name, nodes, fanout = settings.get("job"), settings.get("nodes", 1), hosts.get("fanout", 1)
    lists = [hosts.get("ssh_command", []), *(settings.get(key, []) for key in ("kinds", "companions", "saved_secrets"))]
    return (
        isinstance(name, str)
        and is_file_name(name)
        and isinstance(settings.get("runs"), str)
        and all(type(count) is int and 1 <= count <= MOST_NODES for count in (nodes, fanout))
        and all(is_nonnegative_integer(settings.get(key, 0)) for key in ("gpus", "grace_s"))
        and all(isinstance(words, list) and all(isinstance(word, str) for word in words) for words in lists)
    )


def add_point_option(parser: argparse.ArgumentParser, engine: Engine, default: str) -> None:
    """Add --point if the artifact is a sweep. default: what the verb does without --point"""
    parser.set_defaults(point=None)
    if engine.job.settings.get("sweep"):
        parser.add_argument("--point", metavar="POINT", help=f"number or label of a point; default: {default}")


def require_own_run(run: Run, action: str = "start, stop or remove it") -> Run:
    """Return the run. Raises Failure if another user owns it."""
    if not run.is_mine:
        title = f"run {run.id} belongs to {owner_name(run.path)}: only its owner can {action}"
        raise Failure(title, "jobctl submit starts a new run; with --fork, it starts from that run's checkpoint")
    return run


def is_complete_run(folder: Path) -> bool:
    """Return whether this is a complete run folder that jobctl clean has not hidden."""
    return (
        RUN_ID.fullmatch(folder.name) is not None
        and not os.path.islink(folder)
        and os.path.isfile(f"{folder}/state/run")
        and os.path.isdir(f"{folder}/artifact")
    )
