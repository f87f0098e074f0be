"""Base class of engines, for jobs whose supervisors write to a run folder that this machine can access.

Other backends have a file backends/NAME/engine.py, whose ENGINE is a subclass.
In:  a Job, which contains the artifact's settings (.jobc/job.json), and a Run, which reads a run folder.
Out: for the verbs, a run's State and lines about its nodes; for stop, signals to its supervisors.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..exit_codes import CRASHED, DONE, INTERRUPTED, MEANING, PEER_LOST, PREEMPTED, USAGE_ERROR
from ..run_folder.artifact_copies import JOB_FILE
from ..run_folder.run import (
    QUIET_S,
    LastProgress,
    NodeState,
    Run,
    format_utc,
    jobctl_command,
    quote_shell_word,
)
from ..run_folder.run_secrets import delete_run_secrets, secrets_folder_of_run
from ..run_folder.stopping import signal_supervisors_here, write_stop_mark
from ..system.failure import Failure
from ..system.text import one_line
from ..system.values import read_artifact_json, read_keys
from .live_runs import notes_on_live_run, why_run_may_be_live
from .log_files import LogRequest

ASK_S = 60  # timeout of an engine's client


class State(NamedTuple):
    """The state of a run.

    name: not started, queued, starting, live, stopping, done, stopped, stopped early, failed, gone or unknown.
    text: a readable description of the state.
    exit_code: the job's exit code, once it has ended.
    reason: why it ended this way, or why its state is unknown.
    """

    name: str
    text: str
    exit_code: int | None = None
    reason: str = ""

    @property
    def is_live(self) -> bool:
        return self.name in ("queued", "starting", "live", "stopping", "unknown")


class NodeLine(NamedTuple):
    """State of one node, for people and programs."""

    node: int
    text: str
    status: str
    host: str = ""
    progress: LastProgress | None = None


class Answer(NamedTuple):
    """Output of an engine's client."""

    code: int
    text: str
    errors: str


class Job:
    """A job's artifact: its settings and its location."""

    def __init__(
        self, name: str, artifact: Path, runs: Path, settings: dict[str, Any], is_elsewhere: bool = False
    ) -> None:
        """is_elsewhere: whether the runs are outside the artifact's default run root.

        project: folder to which the spec's relative paths refer; set by Place.
        compiled_artifact: the artifact directory from which a run's copy was made, if it still exists; set by Place.
        """
        self.project = ""
        self.compiled_artifact: Path | None = None
        self.name, self.artifact, self.runs, self.settings = name, artifact, runs, settings
        self.is_elsewhere = is_elsewhere
        nodes = settings.get("nodes")
        self.nodes = nodes if isinstance(nodes, int) else 1

    @property
    def backend(self) -> str:
        return str(self.settings.get("backend", ""))


class Engine:
    """Engine for a job on this machine."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.is_here = not os.path.isfile(f"{job.artifact}/hosts.txt")  # the only node is this machine
        self.live_every_s = 1  # pause between checks of whether a run is live
        self.sees_ranks = True  # ranks write their state files to the run folder here

    def engine_of(self, run: Run) -> Engine:
        """Return the engine for a run of another job on this backend, such as a sweep's point. The new engine shares
        what query_runs() learned from the engine's client.
        """
        artifact = run.path / f"artifact/{run.attempt}"
        job = Job(run.path.parent.name, artifact, run.path.parent, read_artifact_json(artifact / JOB_FILE))
        job.project = self.job.project
        return type(self)(job)

    # ---- what a backend may override

    can_replace_code = True  # whether a resumed run can use new code (jobctl submit --new-code)
    default_console = "the consoles of all nodes, merged by time"  # printed by `jobctl logs` without --node and --rank
    default_shell = "the newest run, or your current code if there is none"  # for `jobctl shell` without --run

    def query_runs(self, runs: Sequence[Run]) -> None:
        """Query the engine about many runs at once. Called before each run's state()."""

    def state(self, run: Run) -> State:
        """Return the run's state. Raises Failure if the engine's client is missing."""
        statuses = run.statuses()
        if any(status in ("up", "elsewhere") for status in statuses.values()):
            return State("stopping", "stopping") if run.is_stopped else State("live", "live")
        if not statuses or (self.is_here and 0 not in statuses):
            return State("not started", "not started")
        code = self.exit_code(run)
        if self.is_here and statuses[0] in ("dead", "silent"):
            return State("failed", "failed: its supervisor was killed, or the machine was restarted", code)
        return state_of_ended_run(run, code, self.reason(run))

    def exit_code(self, run: Run) -> int | None:
        """Return the exit code of a run that has ended, or None if it is unknown."""
        if self.is_here:
            return next((node.exit for node in run.nodes() if node.number == 0), None)
        return run.worst_recorded_code(CRASHED, self.job.nodes)

    def reason(self, run: Run) -> str:
        """Return why a run ended the way it did."""
        head_reason = next((node.reason for node in run.nodes() if node.number == 0), "")
        if self.is_here:
            return head_reason
        first = run.first_failure()
        if first:
            return f"node {first['node']}: {first['reason']}"
        return head_reason if run.ended_node_count() >= self.job.nodes else "not all nodes recorded an exit code"

    def nodes(self, run: Run, state: State) -> Iterator[NodeLine]:
        """Yield one line for each node: whether it is up, ended or down, its host, and its first rank's last step."""
        if not run.nodes():
            return
        statuses, attempt = run.statuses(), run.attempt
        for node in run.nodes():
            text = _describe_node(node, run.silent_s(node.path))
            if node.attempt is not None and node.attempt != attempt:
                text += f", attempt {node.attempt}"
            progress = run.progress(node.first_rank)
            yield NodeLine(node.number, text, statuses[node.number], one_line(node.host), progress)
        for number in range(self.job.nodes):
            if number not in statuses:
                yield NodeLine(number, "has not started", "not started")

    def machine_cost_lines(self) -> Iterator[str]:
        """Yield lines about machines that cost money, and how to stop them."""
        return iter(())

    def run_name_in_engine(self, run: Run) -> str:
        """Return the engine's own name for the run."""
        return ""

    def notes(self, run: Run, state: State) -> Iterator[str]:
        """Yield the lines that status prints after the nodes' lines."""
        return notes_on_live_run(run, self.sees_ranks) if state.name in ("live", "stopping") else iter(())

    def reason_line(self, run: Run, state: State) -> str:
        """Return why the run failed or is failing, or "" if it succeeded or is running normally."""
        first = run.first_failure()
        if first:
            return f"node {first['node']}: {first['reason']}"
        if state.is_live or state.exit_code is None:
            return ""
        # after a stop, report only a kill, because work since the last checkpoint is lost
        if state.exit_code not in (DONE, INTERRUPTED) or ": killed, " in state.reason:
            return state.reason
        return ""

    def failure_lines(self, run: Run) -> list[str]:
        """Return the end of the first failed rank's log if this machine can get it only from the engine."""
        return []

    def resume_command(self, run: Run, state: State) -> str:
        """Return the command that resumes a run that ended early, or "" if it cannot be resumed.

        The command is built here because a command stored in the run folder is not trusted.
        """
        if state.is_live or not run.nodes() or not os.path.isfile(run.path / "state/resume"):
            return ""
        code = state.exit_code
        if (
            state.name == "stopped"
            or code in (None, PEER_LOST, PREEMPTED)
            or (code == CRASHED and os.path.isdir(run.path / "checkpoints"))
        ):
            return self.resume(run)
        if code != CRASHED or USAGE_ERROR in self.reason_line(run, state):
            return ""
        # the user's program crashed, and must be fixed first
        return f"{self.resume(run)} --new-code" if "new_code" in read_keys(run.path / "state/resume") else ""

    def logs_label_and_path(self, run: Run) -> tuple[str, str]:
        """Return a phrase such as "logs in", and the path of the logs."""
        return "logs in", str(run.path / "logs")

    def print_logs(self, run: Run, request: LogRequest) -> int | None:
        """Print the logs and return an exit code, or return None if the logs are files in the run folder."""
        return None

    def engine_log(self, run: Run) -> Path | None:
        """Return the engine's own log, which explains why no node has written one, or None if there is none."""
        return None

    # ---- stopping a run (verbs/stop.py)

    stop_every_s = 0.2  # pause between checks of whether a stopped run has ended
    has_machines = False  # whether machines still cost money after the run; if so, stop has the option --down
    no_end_hint = "jobctl status prints the run's nodes; run ps -o pid,stat,wchan:30,args on them"

    @property
    def grace_s(self) -> int:
        """Return how many seconds a stopped run has to save, doubled if it also uploads to object storage."""
        grace_s = self.job.settings.get("grace_s")
        if not isinstance(grace_s, int):
            raise Failure(f"{self.job.artifact}/.jobc/job.json has no grace_s", "compile the job again with --force")
        return grace_s * (2 if self.job.settings.get("storage") == "object" else 1)

    def require_client(self) -> None:
        """Raise Failure if the engine's client is missing."""

    def stop_signals_and_waits(self) -> list[tuple[str, int]]:
        """Return the signals that stop a run, in order, each with how many seconds to wait for the run to end."""
        return [("TERM", self.grace_s + 10), ("QUIT", 15), ("KILL", 15)]

    def mark_stopped(self, run: Run) -> None:
        """Write the stop mark where the nodes look for it. Called before any signal is sent because a node could
        otherwise mistake the stop for a preemption. Raises Failure.
        """
        write_stop_mark(run.path)

    def signal_or_cancel(self, run: Run, name: str) -> None:
        """Send TERM, QUIT or KILL to the supervisors of a run that mark_stopped() has marked."""
        for line in signal_supervisors_here(run, name):
            print(line, flush=True)

    def release_machines(self, is_asked: bool) -> None:
        """Release the job's machines that cost money, if the user asked for that or nothing else is running on them."""

    # ---- removing old runs (verbs/clean.py)

    has_files_here = True  # run folders contain the runs' files, including checkpoints; if False, only records

    def folders_removed_together(self, run: Run) -> list[Run]:
        """Return the run folders that are removed together."""
        return [run]

    def why_not_removable(self, run: Run) -> str:
        """Return why one of folders_removed_together() cannot be removed yet, or "" if its run has certainly ended."""
        return why_run_may_be_live(run, self.state(run))

    def remove_outside_run_folder(self, run: Run) -> bool:
        """Remove a run's files that are not in its local folder. If that fails, print why and return False."""
        if secrets_folder_of_run(run.path).is_dir():  # left over because its nodes did not end normally
            self.fetch("secrets", [run])
            delete_run_secrets(run.path)
        return True

    def close(self) -> None:
        """Stop the programs that remove_outside_run_folder() started."""

    # ---- helpers

    def fetch(self, what: str, runs: Sequence[Run]) -> None:
        """Copy files from the hosts to the local run folders, if each host has its own run folders.

        what: `state` copies only the state files that show whether the run is live. `news` copies all nodes' state
        files and last steps. The name of a log copies that log, and `node_*.log` copies the logs of all nodes.
        `secrets` copies nothing, but deletes the secrets on the hosts.
        """

    def state_now(self, run: Run) -> State:
        """Query the engine again, and return the run's state."""
        engine, (run,) = self.query_again([run])
        return engine.state(run)

    def query_again(self, runs: Sequence[Run]) -> tuple[Engine, list[Run]]:
        """Query a new engine about the runs. Return this engine and the runs, whose folders have been read again."""
        self.fetch("state", runs)
        engine, runs = self.without_cached_queries(), [Run(run.path) for run in runs]
        engine.query_runs(runs)
        return engine, runs

    def without_cached_queries(self) -> Engine:
        """Return a new engine, which has not queried anything yet."""
        return type(self)(self.job)

    def resume(self, run: Run) -> str:
        """Return the command that resumes the run."""
        named = str(run.path) if self.job.is_elsewhere else run.id
        artifact = self.job.compiled_artifact or self.job.artifact
        return f"{jobctl_command(artifact, 'submit')} --resume {quote_shell_word(named)}"

    def ask(
        self,
        words: Sequence[str],
        timeout_s: float = ASK_S,
        environment: Mapping[str, str] | None = None,
        text: str = "",
        inherited: Mapping[str, str] = os.environ,
    ) -> Answer:
        """Run an engine's client and return its output.

        The exit code is 127 if the client cannot be started, and 124 if it times out.
        text: the client's stdin.
        environment: variables added to the inherited ones.
        """
        try:
            environ = {**inherited, **(environment or {})}
            done = subprocess.run(
                list(words), input=os.fsencode(text), capture_output=True, timeout=timeout_s, check=False, env=environ
            )
        except subprocess.TimeoutExpired:
            return Answer(124, "", f"{words[0]} did not respond within {timeout_s:g} s")
        except OSError as error:
            return Answer(127, "", f"{words[0]}: {error.strerror}")
        return Answer(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))


def state_of_ended_run(run: Run, code: int | None, reason: str = "") -> State:
    """Return the State of a run that ended with this exit code and reason."""
    if run.is_stopped and code in (DONE, INTERRUPTED):
        how = MEANING[code] if code == INTERRUPTED else "stopped by jobctl stop"
        return State("stopped", f"{how} (exit {code})", code, reason)
    if code == DONE:
        return State("done", "done (exit 0)", code, reason)
    if code == PREEMPTED:
        return State("stopped early", "stopped early (exit 75)", code, reason)
    meaning = "unknown: unknown" if code is None else f"{code}: {MEANING.get(code, 'unknown')}"
    return State("failed", f"failed (exit {meaning})", code, reason)


def _describe_node(node: NodeState, silent_s: float | None) -> str:
    host = one_line(node.host)
    since = "an unknown time" if node.started is None else format_utc(node.started)
    if node.ended is not None:
        code = "unknown" if node.exit is None else node.exit
        return f"ended on {host} at {format_utc(node.ended)}, exit {code}"
    if node.location_kind() in ("here", "unknown"):
        if node.is_running():
            return f"up on {host} since {since}, pid {node.pid}"
        return f"down on {host}, started {since}"
    seconds = max(0, int(silent_s or 0))
    if seconds > QUIET_S:
        return f"not responding for {seconds} s on {host}, up since {since}"
    return f"up on {host} since {since}, last seen {seconds} s ago"
