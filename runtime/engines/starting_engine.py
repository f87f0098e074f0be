"""Base class of engines that start runs and check a job's nodes: for submit, smoke, preflight and shell."""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from ..node.node_start import exec_node
from ..run_folder.run import Run, quote_shell_word
from ..system.failure import Failure
from ..system.text import one_line
from ..system.untrusted_files import Unreadable, is_file_name, read_bytes
from ..system.values import MOST_JOB_BYTES, number_or_none
from .engine import Engine

if TYPE_CHECKING:
    from .artifact_location import Place
    from .check_table import Table
    from .new_run import NewRun
    from .new_sweep import NewSweep


class StartingEngine(Engine, ABC):
    """An engine that starts runs, and runs other commands on the job's nodes."""

    def add_submit_options(self, parser: argparse.ArgumentParser) -> None:
        """Add the submit options that only this backend has."""

    def check_before_start(self, options: argparse.Namespace) -> int | None:
        """Raise Failure if options conflict or this machine cannot start jobs. Called before anything is read.

        Return an exit code if there is nothing to start, or None to continue.
        """
        return None

    points_at_a_time: int | None = 1  # in a sweep; None if submit starts all of them because the engine queues them

    def add_sweep_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the options for submitting all points."""
        text = "run at most N points at a time, and wait until all have ended"
        default = self.points_at_a_time
        text += "; without it, start all" if default is None else f"; default: {default}"
        parser.add_argument("--parallel", metavar="N", type=parse_positive_number, default=default, help=text)

    def start_points(self, sweep: NewSweep, options: argparse.Namespace, words: Sequence[str]) -> int | None:
        """Start the points of a sweep's new run, and return submit's exit code. Return None to let submit start each
        point itself.

        options: from add_sweep_arguments().
        words: the other options as typed, for each point's jobctl submit.
        """
        return None

    def require_startable(self, run: Run | None) -> None:
        """Raise Failure if the job cannot start. Called before anything is created. run: run to continue, if any"""

    def can_nodes_read_folder(self, folder: Path, new: NewRun) -> bool:
        """Return whether the ranks can open the folder of the user's code, so that data/ may be linked to it.

        By default, return whether the folder is on the run's file system.
        """
        try:
            return folder.stat().st_dev == new.run.path.stat().st_dev
        except OSError:
            return False

    @abstractmethod
    def start(self, new: NewRun, init_from: str, options: argparse.Namespace) -> int:
        """Start the attempt, and call new.keep() once the start is certain. Return submit's exit code.

        init_from: path of the run whose checkpoint it starts from, or "".
        """

    def environment_for_launch_sh(self, new: NewRun, init_from: str = "") -> dict[str, str]:
        """Return this program's environment with the variables that launch.sh needs, except the node's own:
        JOBC_NODE_RANK, JOBC_HEAD_ADDR, JOBC_HEAD_PORT and JOBC_JOB_ID.
        """
        environ = {
            **os.environ,
            "JOBC_PROJECT": self.job.project,
            "JOBC_RUN_DIR": str(new.run.path),
            "JOBC_RUN_ID": new.run.id,
            "JOBC_ATTEMPT": str(new.attempt),
            "JOBC_TIME_LIMIT_S": str(self.job.settings.get("time_limit_s", 0)),
        }
        if init_from:
            environ["JOBC_INIT_FROM"] = init_from
        return environ

    @abstractmethod
    def smoke(self, place: Place) -> int:
        """Run a collective across the nodes. Return the exit code; 0 means success. Raises Failure."""

    def add_preflight_options(self, parser: argparse.ArgumentParser) -> None:
        """Add the preflight options that only this backend has."""

    @abstractmethod
    def preflight(self, place: Place, options: argparse.Namespace) -> Table | int:
        """Check the nodes. Return the table of checks, or an exit code if there is no table. Raises Failure."""

    def shell_nodes(self, place: Place, named: str) -> int:
        """Return the number of nodes on which a shell can be opened. named: as for shell(). Raises Failure."""
        return place.job.nodes

    def shell(self, place: Place, named: str, node: int, command: Sequence[str]) -> int:
        """Run the command, or a shell if there is none, on a node in the ranks' environment. Return the exit code.

        named: the run whose code is used, or "" for the default. Raises Failure.
        """
        exec_shell(place, named, node, command)


def parse_positive_number(text: str) -> int:
    """Return the option value as a number. Raises Failure."""
    value = number_or_none(text)
    if not value:
        raise Failure(f"{text} is not a number of points, 1 or more", "", 2)
    return value


def starting_engine(place: Place) -> StartingEngine:
    engine = place.engine()
    if not isinstance(engine, StartingEngine):
        raise Failure(f"backend {engine.job.backend} has no engine that starts jobs and checks nodes")
    return engine


def exec_shell(place: Place, named: str, node: int, command: Sequence[str]) -> NoReturn:
    """Exec the command, or a shell if there is none, on this machine. Raises Failure.

    named: the run whose code is used. If it is "", the newest run's code is used, or your current code if there is no
    run.
    """
    run = place.choose_run(named) if named or place.has_runs() else None
    folder = "" if run is None else str(run.path)
    environ = {**os.environ, "JOBC_PROJECT": place.job.project, "JOBC_RUN_DIR": folder}
    exec_node(place.artifact, environ, "shell", *command, node=node)


def copy_user_code(place: Place, engine: StartingEngine, new: NewRun) -> None:
    """Copy the user's code into the run if code=snapshot. Raises Failure."""
    code = _copied_code(place)
    if not code:
        return
    from ..code.snapshot import copy_code  # packed only in such jobs

    root = Path(place.project, code["root"])
    copy_code(
        root,
        run=new.run.path,
        runs=place.job.runs,
        project=Path(place.project),
        max_bytes=code["max_bytes"],
        script=code["script"],
        is_linked=engine.can_nodes_read_folder(root, new),
    )


def warn_of_edited_files(place: Place) -> None:
    """Print a line if somebody has edited launch.sh, or another file of the artifact, since jobc wrote it."""
    checksums = place.settings.get("checksums")
    entries = checksums.items() if isinstance(checksums, dict) else ()
    if edited := [name for name, entry in entries if is_file_name(name) and _is_edited(place.artifact / name, entry)]:
        verb, verify = "was" if len(edited) == 1 else "were", f"jobc verify {quote_shell_word(str(place.artifact))}"
        line = f"warning: {one_line(', '.join(edited))} {verb} edited after compilation (to see how: {verify})"
        print(line, file=sys.stderr)


def _is_edited(file: Path, entry: object) -> bool:
    try:
        digest = hashlib.sha256(read_bytes(file, MOST_JOB_BYTES)).hexdigest()
    except Unreadable:
        return False  # what needs the file reports this
    return isinstance(entry, dict) and entry.get("sha256") != digest


def warn_of_changed_code(place: Place, run: Run) -> None:
    """Warn if the user's code has changed since it was copied to a run, which continues with its copy."""
    if code := _copied_code(place):
        from ..code.snapshot import changed_code  # packed only in such jobs

        if names := changed_code(Path(place.project, code["root"]), run.path):
            print(f"warning: the run ignores what has changed in your code since then: {names}", file=sys.stderr)


def _copied_code(place: Place) -> dict[str, Any]:
    """Return the settings of code=snapshot and code=rsync, or {} for any other code."""
    code = place.settings.get("code")
    return code if isinstance(code, dict) and code.get("kind") in ("snapshot", "rsync") else {}
