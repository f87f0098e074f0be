"""Engine for a sweep's directory: passes queries and signals on to its points' engines.

In:  one run of the whole sweep: the folder RUN_ROOT/NAME+sweep/ID, whose copy of the artifact contains points.json.
Out: the sweep's points (point N has the run RUN_ROOT/JOB/ID-N, which may not exist); the state of all points together.
     A point's run is read and signaled only if it is this user's: its artifact names the programs to call.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ..run_folder.points_file import SweepPoint, read_points
from ..run_folder.run import RecordedProcess, Run, owner_name, worst_code
from ..system.failure import Failure
from .artifact_location import is_complete_run, require_own_run
from .engine import Engine, State

SUBMIT = "state/submit"  # in a sweep's run: the process that starts one point after another
_WORST_FIRST = ("failed", "gone", "stopped early", "stopped", "not started", "of another user")


class PointRun(NamedTuple):
    """A sweep's point, and its run, which may not exist."""

    point: SweepPoint
    run: Run

    @property
    def is_started(self) -> bool:
        """Return whether the point has a run of this user. Another user could create a folder at the run's path."""
        return is_complete_run(self.run.path) and self.run.is_mine


class SweepEngine(Engine):
    """Watches and stops the runs of a sweep and of its points."""

    def __init__(self, engine: Engine) -> None:
        """engine: the backend's engine"""
        super().__init__(engine.job)
        self.engine = engine
        self.live_every_s, self.stop_every_s = engine.live_every_s, engine.stop_every_s
        self.has_machines, self.has_files_here = engine.has_machines, engine.has_files_here
        self.default_console = engine.default_console
        self._points: dict[Path, list[PointRun]] = {}
        self._engines: dict[Path, Engine] = {}

    def points_of_run(self, sweep: Run) -> list[PointRun]:
        """Return the points of one run of the whole sweep. Raises Failure if its points.json is damaged."""
        if sweep.path not in self._points:
            root = sweep.path.parent.parent
            points = read_points(sweep.path / f"artifact/{sweep.attempt}").points
            runs = [PointRun(point, Run(root / point.job / f"{sweep.id}-{point.number}")) for point in points]
            self._points[sweep.path] = runs
        return self._points[sweep.path]

    def started_runs(self, sweep: Run) -> list[Run]:
        """Return the points' runs, except those that have not been started or have been removed."""
        return [point.run for point in self.points_of_run(sweep) if point.is_started]

    def engine_of(self, run: Run) -> Engine:
        """Return the engine for a point's run. Raises Failure if another user owns it."""
        if run.path not in self._engines:
            self._engines[run.path] = self.engine.engine_of(require_own_run(run, "use it"))
        return self._engines[run.path]

    def is_sweep(self, run: Run) -> bool:
        return run.path.parent.name == self.job.name

    # ---- queries

    def query_runs(self, runs: Sequence[Run]) -> None:
        folders = dict.fromkeys(folder for run in runs for folder in self.folders_removed_together(run))
        self.engine.query_runs([run for run in folders if not self.is_sweep(run)])
        self._engines.clear()

    def without_cached_queries(self) -> Engine:
        return SweepEngine(self.engine.without_cached_queries())

    def fetch(self, what: str, runs: Sequence[Run]) -> None:
        for run in runs:
            for folder in self.folders_removed_together(run):
                if not self.is_sweep(folder):
                    self.engine_of(folder).fetch(what, [folder])

    def state(self, run: Run) -> State:
        if self.is_sweep(run):
            return self._sweep_state(run)
        if not is_complete_run(run.path):
            return State("not started", "not started")
        if not run.is_mine:
            return State("of another user", f"{run.path} belongs to {owner_name(run.path)}")
        return self.engine_of(run).state(run)

    def _sweep_state(self, sweep: Run) -> State:
        """Return the state of all points together: live while any point is live, and then the worst state."""
        try:
            states = [self.state(point.run) for point in self.points_of_run(sweep)]
        except Failure as failure:
            return State("other layout", failure.title)
        counts = Counter("live" if state.is_live else state.name for state in states)
        text = ", ".join(f"{count} {name}" for name, count in counts.items())
        if counts["live"] or is_submitting(sweep):
            return State("live", text)
        name = next((name for name in _WORST_FIRST if counts[name]), "done")
        return State(name, text, worst_code([state.exit_code for state in states if state.exit_code is not None]))

    def run_name_in_engine(self, run: Run) -> str:
        return (
            self.engine.run_name_in_engine(run) if self.is_sweep(run) else self.engine_of(run).run_name_in_engine(run)
        )

    # ---- stopping

    def mark_stopped(self, run: Run) -> None:
        if self.is_sweep(run):
            super().mark_stopped(run)
        else:
            self.engine_of(run).mark_stopped(run)

    def signal_or_cancel(self, run: Run, name: str) -> None:
        self.engine_of(run).signal_or_cancel(run, name)

    def stop_signals_and_waits(self) -> list[tuple[str, int]]:
        return self.engine.stop_signals_and_waits()

    # ---- removing old runs

    def folders_removed_together(self, run: Run) -> list[Run]:
        points: list[Run] = []
        with contextlib.suppress(Failure):  # the run was created by another version of jobc
            points = self.started_runs(run) if self.is_sweep(run) else []
        return [*points, run]

    def why_not_removable(self, run: Run) -> str:
        if self.is_sweep(run):
            return "jobctl submit is still starting the sweep's points" if is_submitting(run) else ""
        return self.engine_of(run).why_not_removable(run)

    def remove_outside_run_folder(self, run: Run) -> bool:
        return (
            super().remove_outside_run_folder(run)
            if self.is_sweep(run)
            else self.engine_of(run).remove_outside_run_folder(run)
        )

    def close(self) -> None:
        for engine in self._engines.values():
            engine.close()


def is_submitting(sweep: Run) -> bool:
    """Return whether a jobctl submit on this machine is starting the points of the sweep."""
    return RecordedProcess(sweep.path / SUBMIT).status() == "up"
