"""Run the artifact's verbs on Slurm: queue jobs, and query squeue. Packed into jobctl; Python 3.8.

job_records.py describes the files in the run folder.
Source: Slurm manual page squeue, JOB STATE CODES and JOB REASON CODES; 22.05 to 25.11.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ....runtime.engines.artifact_location import Place, is_complete_run
from ....runtime.engines.check_table import Table
from ....runtime.engines.engine import Job, State, state_of_ended_run
from ....runtime.engines.log_files import LogRequest
from ....runtime.engines.new_run import NewRun, temporary_run
from ....runtime.engines.print_logs import print_logs
from ....runtime.engines.starting_engine import StartingEngine, parse_positive_number
from ....runtime.exit_codes import CRASHED, PREEMPTED
from ....runtime.node.node_start import exec_program, run_program
from ....runtime.run_folder.run import Run, quote_shell_word
from ....runtime.run_folder.run_secrets import delete_run_secrets, saved_secrets
from ....runtime.system.failure import Failure, insert_jobctl_path, print_failure
from ....runtime.system.streams import client_output_lines
from ....runtime.system.text import one_line, printable
from ....runtime.system.values import number_or_none, numbers_of_files, read_keys
from .job_records import record_queued_job, recorded_step_id
from .link_named_log import LOGS, log_options
from .pyxis import container_environment
from .srun_trial import srun_command_for_live_run, srun_command_for_new_allocation, strip_label_padding
from .submission import (
    SlurmQueue,
    dependency_from_after_option,
    dependency_option,
    require_client,
    require_known_jobs,
    sbatch_environment,
)

if TYPE_CHECKING:
    from ....runtime.engines.new_sweep import NewSweep

_JOB_ID = re.compile(r"[0-9]{1,18}(_[0-9]{1,18})?")
# A job in any other state may be live.
_OVER = re.compile("COMPLETED|CANCELLED|FAILED|TIMEOUT|NODE_FAIL|OUT_OF_MEMORY|BOOT_FAIL|DEADLINE|PREEMPTED")
_PENDING = (  # reason in squeue -> text that explains why the job is waiting
    ("JobArrayTaskLimit", "waiting for other points of the sweep (backend.array_limit)"),
    ("Resources", "next in line, waiting for free nodes"),
    ("Priority", "jobs with a higher priority are ahead"),
    ("Dependency", "the jobs that it depends on (queue.after) have not ended"),
    ("DependencyNeverSatisfied", "its dependency (queue.after) can never be met: jobctl stop removes the job"),
    ("BeginTime", "Slurm requeued the job and will start it again soon"),
    ("JobHeldUser", "held: scontrol release"),
    ("JobHeldAdmin", "held by an administrator"),
    ("ReqNodeNotAvail.*", "the job requests nodes that are down, drained or reserved: see sinfo -R"),
    ("NodeDown", "a node that the job needs is down: see sinfo -R"),
    ("PartitionNodeLimit", "the job requests more nodes than the partition has or allows, so it will never start"),
    ("PartitionTimeLimit", "the job requests more time than the partition allows, so it will never start"),
    ("PartitionConfig", "the nodes that could run the job are down, drained or too small: see sinfo -R"),
    ("PartitionDown|PartitionInactive", "the partition currently accepts no jobs"),
    ("BadConstraints", "no node satisfies the request, so the job will never start"),
    ("Assoc.*|QOS.*|MaxJobs.*", "a limit of the account or its quality of service ({})"),
    ("Reservation", "the job's reservation has not started"),
    ("Licenses", "waiting for licenses"),
    ("None|", "the scheduler has not considered the job yet"),
)
HOW = {
    "wait": "print the output until the job ends, and exit with its exit code",
    "detach": "return when the job is queued; the default",
    "here": "run in this shell's allocation; by default, jobctl queues a new job even inside an allocation",
    "only-prepare": "create the run folder and print its path, but queue nothing",
}


class SlurmEngine(StartingEngine):
    """Queries squeue only once for all runs."""

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self._known: dict[str, str] = {}  # job ID -> `STATE REASON`; absent if Slurm no longer knows the job
        self._silent = ""  # why Slurm does not respond
        self.live_every_s = 5
        cluster = job.settings.get("cluster")
        self._environment = {"SLURM_CLUSTERS": str(cluster)} if cluster else {}
        self._queue = SlurmQueue(self, self._environment)

    def query_runs(self, runs: Sequence[Run]) -> None:
        ids = {
            job_id.partition("_")[0] for job_id in (_job_id_to_query(_newest_job_record(run)) for run in runs) if job_id
        }
        self._silent = self._query_squeue(sorted(ids)) if ids else ""

    def _query_squeue(self, ids: list[str]) -> str:
        """Query squeue and fill _known. Return why Slurm does not respond, or "" if it does."""
        words = ["squeue", "--noheader", "--states=all", "--array", "--format=%i %T %r"]
        answer = self.ask([*words, f"--jobs={','.join(ids)}"], environment=self._environment)
        if answer.code and len(ids) > 1 and _is_job_unknown(answer.errors):
            whys = [self._query_squeue([single_id]) for single_id in ids]  # some versions reject the whole list
            return next(filter(None, whys), "")
        if answer.code and not _is_job_unknown(answer.errors):
            return answer.errors.strip().split("\n")[-1].rpartition(": ")[2] or "squeue failed"
        for line in answer.text.splitlines():
            job_id, _, state = line.strip().partition(" ")
            self._known[re.sub(r"\+0$", "", job_id)] = state  # JOB+0 is the ranks' part of a heterogeneous job
        return ""

    def state(self, run: Run) -> State:
        path = _newest_job_record(run)
        if path is None:
            return State("not started", "not submitted")
        keys = read_keys(path)
        job_id = _valid_job_id(keys)
        code = number_or_none(keys.get("exit", ""))
        if self._silent:
            why = f"Slurm does not respond: {self._silent}"
            return State("unknown", f"unknown, because {why}", None, why)
        state, _, reason = self._known.get(job_id, "").partition(" ") if _job_id_to_query(path) else ("", "", "")
        if state == "PENDING":
            return State("queued", f"queued as job {job_id}: {why_job_is_pending(reason)}")
        if state and not _OVER.match(state):
            if run.is_stopped:
                return State("stopping", f"stopping, job {job_id}")
            return State("live", f"live, job {job_id}" if state == "RUNNING" else f"job {job_id} is {state}")
        why = self.reason(run)
        if code is None and run.is_stopped:
            return State("stopped", f"stopped by jobctl stop before it started, job {job_id}", None, why)
        if state == "CANCELLED" and code == 75:
            return State("stopped early", f"job {job_id} was cancelled with scancel (exit 75)", code, why)
        if code is not None:
            return state_of_ended_run(run, code, why)
        end = "was cancelled" if state == "CANCELLED" else f"ended{state and f' as {state}'}"
        text = f"failed: job {job_id} {end} without recording an exit code"
        return State("failed", text, None, why)

    def reason(self, run: Run) -> str:
        first = run.first_failure()
        if first:
            return f"node {first['node']}: {first['reason']}"
        path = _newest_job_record(run)
        keys = {} if path is None else read_keys(path)
        why = keys.get("reason", "")
        if self.job.nodes == 1:
            for node in run.nodes():
                if node.number == 0 and node.attempt == run.attempt and node.reason:
                    is_early = number_or_none(keys.get("exit", "")) == PREEMPTED and ": killed, " not in node.reason
                    return why if is_early else node.reason
        if (run.path / "exit" / str(run.attempt)).is_dir() and run.ended_node_count() < self.job.nodes:
            why += "; not every node recorded an exit code: see logs/slurm-*.log"
        return why

    def engine_log(self, run: Run) -> Path | None:
        """Return the job's log. `sbatch job.sbatch` writes it to the working directory, usually the artifact's."""
        path = _newest_job_record(run)
        job_id = "" if path is None else _valid_job_id(read_keys(path))
        log = run.path / f"logs/slurm-{job_id}{LOGS['output']}"
        by_hand = (self.job.compiled_artifact or self.job.artifact) / f"slurm-{job_id}.out"
        return (log if os.path.lexists(log) else by_hand) if job_id else None

    def why_not_removable(self, run: Run) -> str:
        """Return why the run cannot be removed, or "".

        Until Slurm reports that the run's job ended, its processes may still be running.
        """
        path = _newest_job_record(run)
        if path is None or path.name != f"job_{run.attempt}":
            return f"attempt {'' if run.attempt is None else run.attempt} has not been queued yet"
        if self._silent:
            return f"Slurm does not respond: {self._silent}"
        job_id = _job_id_to_query(path)
        return "" if _OVER.match(self._known.get(job_id, "COMPLETED")) else f"Slurm still lists job {job_id}"

    # ---- stopping

    stop_every_s = 1

    def signal_or_cancel(self, run: Run, name: str) -> None:
        """Signal the ranks' supervisors. KILL cancels the job, as does any signal while the job is pending.

        With --here, only the run's step is signaled, so the allocation is kept. Other groups' steps are not signaled.
        """
        path = _newest_job_record(run)
        if path is None or self._silent:
            return
        is_here, job_id = bool(read_keys(path).get("here")), _job_id_to_query(path)
        is_queued = self._known.get(job_id, "").startswith("PENDING")
        is_cancelled = not is_here and (name == "KILL" or is_queued)
        if is_here or (self.job.settings.get("has_groups") and not is_cancelled):
            job_id = recorded_step_id(run.path, int(path.name[4:]))
        if not job_id:
            return
        if is_cancelled:
            answer = self.ask(["scancel", job_id], environment=self._environment)
            if answer.code:
                print(printable(answer.errors.strip()), file=sys.stderr)
            delete_run_secrets(run.path)  # batch.py may not have recorded the step yet
        else:
            self.ask(["scancel", f"--signal={name}", job_id], environment=self._environment)

    # ---- starting

    default_shell = "the live run; without a live run, Slurm allocates a node"

    def add_submit_options(self, parser: argparse.ArgumentParser) -> None:
        for how, text in HOW.items():
            parser.add_argument(f"--{how}", dest="how", action="store_const", const=how, default="", help=text)
        self._add_after_option(parser)

    def _add_after_option(self, parser: argparse.ArgumentParser) -> None:
        kinds = "afterany:ID, afternotok:ID and singleton work as in sbatch --dependency"
        text = f"start after job ID has succeeded; {kinds}. Added to queue.after"
        parse = dependency_from_after_option
        parser.add_argument("--after", metavar="ID", action="append", default=[], type=parse, help=text)

    def check_before_start(self, options: argparse.Namespace) -> int | None:
        """If the job was started with `sbatch job.sbatch` and Slurm has restarted it since, print its run."""
        if options.how == "here" and not os.environ.get("SLURM_JOB_ID"):
            raise Failure("this shell is not in an allocation", "run salloc first, or omit --here", 2)
        require_client()
        require_known_jobs(self, options.after, self._environment)
        run = self.job.runs / (options.run_id or ".")
        is_again = os.environ.get("SLURM_RESTART_COUNT", "0") not in ("", "0")
        if options.how != "only-prepare" or not (options.run_id and is_again and is_complete_run(run)):
            return None
        print(run)
        return 0

    def start(self, new: NewRun, init_from: str, options: argparse.Namespace) -> int:
        """Queue the job. The run folder is created first, because Slurm does not create the folder for --output."""
        run, script = new.run, str(new.artifact / "job.sbatch")
        with saved_secrets(run.path, self.job.settings.get("saved_secrets", ())):
            if options.how == "only-prepare":
                new.keep()
                print(run.path)
                return 0
            if options.how == "here":
                new.keep()
                os.chdir(run.path)
                exec_program(["bash", script, str(run.path), str(new.attempt), "here"], os.environ)
            words = dependency_option(options.after, str(self.job.settings.get("after") or ""))
            words += [f"--chdir={run.path}", *log_options(self.job.settings, f"{run.path}/logs/slurm-%j")]
            with self._queue.submitted_job([*words, script, str(run.path), str(new.attempt)]) as job_id:
                new.keep()
                record_queued_job(run.path, new.attempt, job_id)
        new.print_started(f" in {quote_shell_word(str(run.path))}, job {job_id}")
        return self._print_until_end(run) if options.how == "wait" else 0

    def _print_until_end(self, run: Run) -> int:
        """Print the nodes' output until the job has ended, and return its exit code."""
        try:
            print_logs(self, run, LogRequest(follow=True, new_attempt=True), is_patient=True)
        except Failure as failure:
            print_failure(failure)
        print(f"run {run.id}: {one_line(self.state_now(run).text)}")
        path = _newest_job_record(run)
        code = None if path is None else number_or_none(read_keys(path).get("exit", ""))
        return CRASHED if code is None else code

    def add_sweep_arguments(self, parser: argparse.ArgumentParser) -> None:
        limit = self.job.settings.get("array_limit")
        text = "run at most N points at a time; default: backend.array_limit. With --resume, submit then waits for them"
        parser.add_argument("--parallel", metavar="N", type=parse_positive_number, default=limit, help=text)
        text = "wait until all points have ended; exit with 0 if all succeeded, else with 1"
        parser.add_argument("--wait", action="store_true", help=text)
        self._add_after_option(parser)

    def start_points(self, sweep: NewSweep, options: argparse.Namespace, words: Sequence[str]) -> int | None:
        if options.resume:  # array elements cannot be restarted
            return super().start_points(sweep, options, words)
        if words:
            raise Failure(f"{words[0]} needs --point", "jobctl submit --help", 2)
        require_client()
        require_known_jobs(self, options.after, self._environment)
        from .job_array import start_array  # packed only into a sweep's jobctl

        return start_array(sweep, self._queue, options)

    # ---- checks and shells on the nodes

    def smoke(self, place: Place) -> int:
        with self._temporary_run(place) as new:
            words = srun_command_for_new_allocation(self, new.run.path, place.project, ["--label"], ["smoke"])
            code = run_program(words, self._trial_environment())
            if code:
                new.keep_for_logs()
                print(f"its logs are in {quote_shell_word(str(new.run.path / 'logs'))}", file=sys.stderr)
        return code

    def add_preflight_options(self, parser: argparse.ArgumentParser) -> None:
        text = "only ask Slurm whether it would accept the job; allocate no nodes"
        parser.add_argument("--queue-only", action="store_true", help=text)

    def preflight(self, place: Place, options: argparse.Namespace) -> Table | int:
        """Ask Slurm whether it would accept the job, then check nodes in a similar allocation."""
        require_client()
        try:
            text = self._queue.test_submission(self.job.artifact / "job.sbatch")
        except Failure as failure:
            print(f"FAIL  {failure.title}\n      hint: {insert_jobctl_path(failure.hint)}")
            return 1
        print(f"ok    Slurm accepts the job: {text}", flush=True)
        if options.queue_only:
            return 0
        table = Table(map(str, range(self.job.nodes)))
        with self._temporary_run(place) as new:
            words = srun_command_for_new_allocation(self, new.run.path, place.project, ["--label"], ["preflight"])
            for line in client_output_lines(words, inherited=self._trial_environment()):
                table.add(strip_label_padding(line))
        return table

    @contextlib.contextmanager
    def _temporary_run(self, place: Place) -> Iterator[NewRun]:
        """Create a temporary run with the job's secrets, in a folder that the nodes can access."""
        require_client("srun")
        with temporary_run(place, self, place.create_runs_folder()) as new:
            try:
                with saved_secrets(new.run.path, self.job.settings.get("saved_secrets", ())):
                    nodes = f"{self.job.nodes} node{'s' if self.job.nodes > 1 else ''}"
                    print(f"waiting for Slurm to allocate {nodes}; press Ctrl-C to stop", file=sys.stderr, flush=True)
                    yield new
            finally:
                delete_run_secrets(new.run.path)

    def _trial_environment(self) -> dict[str, str]:
        container = container_environment(self.job.settings, os.environ)
        return {**sbatch_environment(os.environ), **self._environment, **container}

    def shell(self, place: Place, named: str, node: int, command: Sequence[str]) -> int:
        """Exec a shell on a node of a live run, or on a newly allocated node."""
        require_client("srun")
        run = place.choose_run(named) if named or place.has_runs() else None
        pty = ["--pty"] if sys.stdin.isatty() and sys.stdout.isatty() else []
        allocation = None if run is None else self._running_allocation(run)
        if run is not None and allocation is not None:
            words = srun_command_for_live_run(self, run, place.project, allocation, node, pty)
            environ = {**os.environ, **self._environment, **container_environment(self.job.settings, os.environ)}
            exec_program([*words, *command], environ)
        if node:
            hint = "without NODE, Slurm allocates a node for the shell"
            raise Failure(f"node {node} does not exist, because no run is live", hint, 2)
        folder = Path(os.path.realpath(place.create_runs_folder())) if run is None else run.path
        options = ["--nodes=1", *pty]
        words = srun_command_for_new_allocation(self, folder, place.project, options, ["shell", *command])
        exec_program(words, self._trial_environment())

    def _running_allocation(self, run: Run) -> tuple[str, str] | None:
        """Return a running job's ID and node list, or None if the job is not running. Raises Failure."""
        self.query_runs([run])
        if self._silent:
            raise Failure(f"Slurm does not respond: {self._silent}", "sinfo shows whether the controller is up")
        job_id = _job_id_to_query(_newest_job_record(run))
        if not job_id or not self._known.get(job_id, "").startswith("RUNNING"):
            return None
        words = ["squeue", "--noheader", f"--jobs={job_id}", "--format=%A %N"]
        first_line = self.ask(words, environment=self._environment).text.strip().partition("\n")[0]
        own_id, _, nodes = first_line.partition(" ")
        return (own_id, nodes.strip()) if number_or_none(own_id) is not None and nodes.strip() else None

    # ---- sweeps

    def engine_of(self, run: Run) -> SlurmEngine:
        engine = super().engine_of(run)
        assert isinstance(engine, SlurmEngine)
        engine._known, engine._silent = self._known, self._silent
        return engine

    def run_name_in_engine(self, run: Run) -> str:
        path = _newest_job_record(run)
        return f"job array {'' if path is None else _valid_job_id(read_keys(path))}"


def why_job_is_pending(reason: str) -> str:
    for pattern, text in _PENDING:
        if re.fullmatch(pattern, reason):
            return text.format(reason)
    return reason


def _newest_job_record(run: Run) -> Path | None:
    """Return the record of the newest attempt that Slurm has accepted."""
    attempts = numbers_of_files(run.path / "state", "job_")
    return run.path / "state" / f"job_{attempts[-1]}" if attempts else None


def _valid_job_id(keys: dict[str, str]) -> str:
    job_id = keys.get("job_id", "")
    return job_id if _JOB_ID.fullmatch(job_id) else ""


def _job_id_to_query(path: Path | None) -> str:
    """Return a record's job ID, or "" if the run has ended in the user's allocation, which may still be active."""
    if path is None:
        return ""
    keys = read_keys(path)
    return "" if keys.get("here") and number_or_none(keys.get("exit", "")) is not None else _valid_job_id(keys)


def _is_job_unknown(errors: str) -> bool:
    return "nvalid job id" in errors
