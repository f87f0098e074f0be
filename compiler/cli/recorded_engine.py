"""Read a run's state from its folder alone. Without queries to engines or hosts, reading a thousand runs takes only a
moment.

In:  a run folder with its newest attempt's artifact.
Out: a State, which is `submitted` if only the engine or the hosts know the run's state.
"""

import os

from ...runtime.engines.engine import Engine, Job, State, state_of_ended_run
from ...runtime.engines.record_engine import newest_record
from ...runtime.engines.sweep_engine import SweepEngine
from ...runtime.run_folder.artifact_copies import JOB_FILE
from ...runtime.run_folder.run import Run
from ...runtime.system.text import one_line
from ...runtime.system.values import number_or_none, read_artifact_json, word_or_empty

NOT_ASKED = "submitted; jobc status asks the engine for its state"
STOP_REQUESTED = "stopped by jobctl stop; jobc status asks the engine whether it has ended"


class RecordedEngine(Engine):
    """Engine that reads node states, heartbeats, records and exit codes, and queries neither an engine nor hosts."""

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self.is_here = self.is_here and job.nodes == 1

    def state(self, run: Run) -> State:
        if run.is_live():
            return super().state(run)
        record = newest_record(run)
        code = number_or_none(record.keys.get("exit", "")) if record is not None else None
        if record is not None and code is not None:
            return state_of_ended_run(run, code, one_line(record.keys.get("reason", "")))
        if self._is_known_elsewhere(run, has_record=record is not None):
            return State("stopped", STOP_REQUESTED) if run.is_stopped else State("submitted", NOT_ASKED)
        return super().state(run)

    def _is_known_elsewhere(self, run: Run, has_record: bool) -> bool:
        """Return whether only the engine or the hosts know the nodes' state. This is so if an engine accepted the
        attempt but no node has started it, or if each host has its own run folder and not all nodes have reported
        their end.
        """
        if os.path.lexists(f"{run.path}/state/mirror"):
            return sum(status == "ended" for status in run.statuses().values()) < self.job.nodes
        attempt = run.attempt
        return has_record and not any(node.attempt in (None, attempt) for node in run.nodes())


def recorded_engine(run: Run) -> Engine:
    artifact, runs = run.path / f"artifact/{run.attempt}", run.path.parent
    settings = read_artifact_json(artifact / JOB_FILE)
    settings["backend"] = word_or_empty(str(settings.get("backend", "")))
    engine = RecordedEngine(Job(runs.name, artifact, runs, settings))
    return SweepEngine(engine) if settings.get("sweep") else engine


def may_be_live(run: Run) -> bool:
    """Return whether the run is live, or has been submitted to an engine and is not known to have ended."""
    state = recorded_engine(run).state(run)
    return state.is_live or state.name == "submitted"
