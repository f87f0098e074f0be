"""Base class of engines whose runs are on storage that this machine cannot access (Kubernetes, SkyPilot).

On this machine, a run folder is only a record: the engine's IDs for the job in RUN/state/job_ATTEMPT, the artifact that
was sent, and what was observed about the job. When the job has ended, the exit code and the reason are added, because
engines forget them.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from ..exit_codes import CRASHED, DONE, INTERRUPTED, PEER_LOST, PREEMPTED, USAGE_ERROR
from ..run_folder.run import Run, worst_code
from ..run_folder.run_folder import write_small_file
from ..system.failure import Failure
from ..system.text import one_line
from ..system.values import number_or_none, numbers_of_files, read_keys
from .engine import Engine, Job, State, state_of_ended_run

# bash lines for a node; $1 is the run folder, which may not exist yet
MARK_ON_NODE = 'mkdir -p -- "$1/control" && touch -- "$1/control/STOP"'
WAIT_S = 2  # interval between checks of whether an awaited job has ended
LIVE, ENDED, GONE = "live", "ended", "gone"  # a job's state in its engine; GONE: the engine has forgotten the job


class Record(NamedTuple):
    """The file state/job_ATTEMPT for the newest attempt that the engine accepted."""

    run: Run
    path: Path
    attempt: int
    keys: dict[str, str]


class ObservedState(NamedTuple):
    """A run's state as last observed. code, reason: exit code, and why it ended this way, once the run has ended."""

    record: Record | None
    state: str  # LIVE, ENDED, GONE, or "" without a record
    code: int | None = None
    reason: str = ""


class RecordEngine(Engine):
    """Engine with a job record per run, which subclasses interpret."""

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self._seen: dict[Path, ObservedState] = {}

    # ---- what a backend provides

    def ask_engine(self, record: Record) -> str:
        """Return LIVE, ENDED or GONE. Raises Failure if the engine does not respond."""
        raise NotImplementedError

    def save_job_output(self, record: Record) -> None:
        """Save the job's output before the engine deletes it."""

    def job_exit_code_and_reason(self, record: Record) -> tuple[int, str]:
        """Return the exit code and reason of a job that has ended."""
        raise NotImplementedError

    def exit_code_and_reason_on_storage(self, record: Record) -> tuple[int, str] | None:
        """Return the exit code and reason that a gone job's nodes left on storage, or None if they left none."""
        return None

    def live_state(self, record: Record) -> State:
        """Return the State of a live job."""
        raise NotImplementedError

    def forgotten_job_state(self, record: Record) -> State:
        """Return the State of a job that the engine has forgotten."""
        raise NotImplementedError

    def forgotten_job_reason(self, record: Record) -> str:
        """Return why the engine has forgotten the job."""
        return ""

    def live_run_keep_reason(self, record: Record) -> str:
        """Return why a live run may not be removed."""
        raise NotImplementedError

    # ---- common to all backends

    has_files_here = False
    can_replace_code = False
    stop_every_s = 1

    def why_not_removable(self, run: Run) -> str:
        status = self.observed_state(run)
        return self.live_run_keep_reason(status.record) if status.state == LIVE and status.record else ""

    def observed_state(self, run: Run) -> ObservedState:
        if run.path not in self._seen:
            self._seen[run.path] = self._observe_state(run)
        return self._seen[run.path]

    def _observe_state(self, run: Run) -> ObservedState:
        record = newest_record(run)
        if record is None:
            return ObservedState(None, "")
        code = number_or_none(record.keys.get("exit", ""))
        if code is not None:
            return ObservedState(record, ENDED, code, record.keys.get("reason", ""))
        if not run.is_mine:
            return ObservedState(record, LIVE)  # never write to another user's record, because the file may be a link
        state = self.ask_engine(record)
        if state == ENDED:
            self.save_job_output(record)
            return self.record_end(record, *self.job_exit_code_and_reason(record))
        if state == GONE:
            end = self.exit_code_and_reason_on_storage(record)
            if end is not None:
                return self.record_end(record, *end)
        return ObservedState(record, state)

    def record_end(self, record: Record, code: int, reason: str) -> ObservedState:
        """Record how the job ended, and return the new state. Raises Failure."""
        keys = {key: value for key, value in record.keys.items() if key not in ("exit", "reason")}
        status = ObservedState(record, ENDED, code, one_line(reason))
        _write_keys(record.path, {**keys, "exit": code, "reason": status.reason})
        self._seen[record.run.path] = status
        return status

    def record_end_from_node_codes(self, run: Run, codes: Iterable[int]) -> None:
        """Record the end of a job that the engine has forgotten, using the exit codes of all its nodes."""
        status, code = self.observed_state(run), worst_code(list(codes))
        if status.state == GONE and status.record is not None and code is not None:
            self.record_end(status.record, code, self.forgotten_job_reason(status.record))

    def wait(self, run: Run) -> int:
        """Wait until the job has ended, print how it ended, and return its exit code."""
        while True:
            engine, (run,) = self.query_again([run])
            if not isinstance(engine, RecordEngine) or engine.observed_state(run).state != LIVE:
                break
            time.sleep(WAIT_S)
        engine.fetch("news", [run])
        state = engine.state(run)
        print(f"run {run.id}: {one_line(state.text)}", flush=True)
        if reason := engine.reason_line(run, state):
            for line in (f"reason: {reason}", *engine.failure_lines(run)):
                print(f"  {one_line(line)}", flush=True)
        return CRASHED if state.exit_code is None else state.exit_code

    def state(self, run: Run) -> State:
        status = self.observed_state(run)
        if status.record is None:
            return State("not started", "not submitted")
        if status.code is not None:
            return state_of_ended_run(run, status.code, status.reason)
        return self.live_state(status.record) if status.state == LIVE else self.forgotten_job_state(status.record)

    def exit_code(self, run: Run) -> int | None:
        return self.observed_state(run).code

    def reason(self, run: Run) -> str:
        return self.observed_state(run).reason

    def reason_line(self, run: Run, state: State) -> str:
        return "" if state.is_live or state.exit_code in (DONE, INTERRUPTED, None) else state.reason

    def resume_command(self, run: Run, state: State) -> str:
        can_continue = state.exit_code in (CRASHED, PEER_LOST, PREEMPTED) and not state.is_live
        return self.resume(run) if can_continue and USAGE_ERROR not in state.reason else ""

    def path_on_nodes(self, run: Run, node: int = 0) -> str:
        root = str(self.job.settings.get("storage_root", ""))
        node_folder = f"node_{node:02}/" if self.job.settings.get("storage") == "object" else ""
        return f"{root}/{node_folder}{self.job.name}/{run.id}"


def newest_record(run: Run) -> Record | None:
    attempts = numbers_of_files(f"{run.path}/state", "job_")
    if not attempts:
        return None
    path = run.path / f"state/job_{attempts[-1]}"
    return Record(run, path, attempts[-1], read_keys(path))


def write_record(run: Run, attempt: int, keys: Mapping[str, object]) -> None:
    """Record the IDs of an attempt that the engine accepted. Its exit and reason stay empty until it ends. Raises
    Failure.
    """
    _write_keys(run.path / f"state/job_{attempt}", {**keys, "exit": "", "reason": ""})


def _write_keys(path: Path, keys: Mapping[str, object]) -> None:
    try:
        write_small_file(path, keys=keys)
    except OSError as error:
        raise Failure(f"cannot write {path}: {error.strerror}", "check permissions and free space") from None
