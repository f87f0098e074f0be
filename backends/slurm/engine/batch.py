"""Run a batch job's tasks and then decide whether Slurm should restart the job. Called by job.sbatch; Python 3.8.

Usage: jobctl batch [RUN_DIR [ATTEMPT [here]]] -- srun OPTION… bash launch.sh [: srun …]…
       Without RUN_DIR (`sbatch` by hand), it creates the run. With `here`, it runs in the user's allocation, and is
       never requeued.
Out:   RUN/artifact/ATTEMPT (a link if Slurm has restarted the job), RUN/state/job_ATTEMPT, and the nodes' worst exit
       code.
Source: Slurm manual pages sbatch, srun, scancel, scontrol; 22.05 to 25.11.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from ....runtime.engines.artifact_location import Place
from ....runtime.engines.engine import Engine
from ....runtime.exit_codes import CRASHED, DATA_BROKEN, DONE, MEANING, PEER_LOST, PREEMPTED
from ....runtime.ranks.separate_stderr import STDERR, WANTED
from ....runtime.run_folder.artifact_copies import copy_number_by_attempt, link_attempt_to_copy
from ....runtime.run_folder.run_folder import REQUEUES, write_small_file
from ....runtime.run_folder.run_secrets import delete_run_secrets
from ....runtime.run_folder.submitted_values import VARIABLE
from ....runtime.system.command_line import run_verb
from ....runtime.system.failure import Failure
from ....runtime.system.processes import SignalQueue
from ....runtime.system.values import number_or_none, read_keys
from .group_steps import GroupSteps, split_steps
from .job_records import full_job_id, recorded_step_id
from .job_variables import COMPILED_AGAIN, FROM_SALLOC, first_host
from .link_named_log import LOGS, link_log
from .pyxis import container_environment, container_options
from .requeue import decide_next_start, describe_end, lost_nodes, requeue_without_lost_nodes

LOOK_S = 1.0  # interval at which to check for a failed node
CHECK_S = 60  # timeout of the step that checks whether all nodes can access the run folder
# An allocation (--here) may have been created with options that hide cores or GPUs from a task, or that contradict
# srun's options in job.sbatch. Without the variables below, Slurm's default applies: every task sees all of its node's
# GPUs.
_FOREIGN_PREFIXES = ("SLURM_CPU_BIND", "SLURM_MEM_BIND", "SLURM_GPU_BIND")
_FOREIGN = (
    "SLURM_TRES_BIND", "SLURM_DISTRIBUTION", "SLURM_GPUS_PER_TASK", "SLURM_NTASKS_PER_GPU", "SLURM_CPUS_PER_GPU",
    "SLURM_TRES_PER_TASK", "SLURM_CPUS_PER_TASK", "SRUN_CPUS_PER_TASK",  # srun reads one, depending on its version
    "JOBC_RUN_ID", "JOBC_JOB_ID", "JOBC_NODE_RANK", "JOBC_NODE_LIST", "JOBC_HEAD_ADDR", "JOBC_HEAD_PORT",
    "JOBC_INIT_FROM", "LOCAL_RANK",  # job_variables.py sets these in each task
    REQUEUES,
    VARIABLE,  # the run folder has the values
)  # fmt: skip
_CANNOT_READ = '[[ -r $0 ]] || echo "$SLURM_NODEID $(uname -n)"'


def main(argv: list[str]) -> int:
    return run_verb(run_batch_job, argv)


def run_batch_job(argv: list[str]) -> int:
    """Run one attempt. Raises Failure if the run cannot be created or recorded."""
    separator = argv.index("--")
    arguments, srun = argv[:separator], argv[separator + 1 :]
    signals = SignalQueue((signal.SIGUSR2, signal.SIGTERM, signal.SIGINT, signal.SIGCHLD))
    job_id = full_job_id(os.environ)
    run = Path(arguments[0]) if arguments else create_or_find_run(job_id)
    first_attempt = int(arguments[1]) if len(arguments) > 1 else 0
    is_here = len(arguments) > 2
    restarts = 0 if is_here else number_or_none(os.environ.get("SLURM_RESTART_COUNT", "")) or 0
    attempt = first_attempt + restarts
    place = Place(attempt_artifact(run, first_attempt, attempt))
    return BatchAttempt(place, attempt, job_id, restarts, is_here, signals).run_attempt(srun)


class BatchAttempt:
    """One attempt of a run, as a batch job or as a step of the user's allocation (--here)."""

    def __init__(
        self, place: Place, attempt: int, job_id: str, restarts: int, is_here: bool, signals: SignalQueue
    ) -> None:
        """restarts: how many times Slurm has restarted this job"""
        assert place.own_run is not None, "the artifact is a copy in the run folder"
        self.place, self.run, self.artifact = place, place.own_run, place.artifact
        self.engine = Engine(place.job)
        self.attempt, self.job_id = attempt, job_id
        self.restarts, self.is_here = restarts, is_here
        self.most_restarts = int(place.settings["max_requeues"])
        self.asked = ""  # "time": the time limit is near; "term": scancel or a preemption
        self._signals = signals
        self._groups = GroupSteps()

    def run_attempt(self, srun: list[str]) -> int:
        """Run the tasks and return the job's exit code. srun: the srun command, and those of other groups"""
        if why := self._code_and_reason_not_to_run():
            return self._record_and_return_code(*why)
        self._record_job()
        self._link_named_logs()
        try:
            self._check_node_count(number_or_none(os.environ.get("SLURM_JOB_NUM_NODES", "")))
            words, *group_words = map(self._task_words, split_steps(srun))
        except Failure as failure:
            self._record_and_return_code(failure.code, failure.title)
            raise
        environ = self._task_environment()
        if self.place.job.nodes > 1 and (blind := self._nodes_without_access(environ)):
            return self._record_and_return_code(DATA_BROKEN, self._record_and_describe_missing_access(blind))
        self._wait_for_signals(0)
        code = PREEMPTED if self.asked else self._run_groups_and_tasks(words, group_words, environ)
        return self._requeue_or_record_end(code)

    def _link_named_logs(self) -> None:
        """Link the logs to the names in backend.output and backend.stderr. With --here, output goes to the terminal."""
        for setting, suffix in LOGS.items():
            pattern = self.place.settings.get(setting)
            log = self.run.path / f"logs/slurm-{self.job_id}{suffix}"
            if pattern and not self.is_here and (why := link_log(log, pattern, self.place.project, os.environ)):
                print(f"warning: {why}", file=sys.stderr)

    def _code_and_reason_not_to_run(self) -> tuple[int, str] | None:
        """Return the exit code and the reason if the job must not run although Slurm has started it, else None."""
        if self.run.is_stopped:
            return DONE, "stopped by jobctl stop before it started"
        # since 24.05, Slurm also requeues a job that exits with 0 during a preemption's GraceTime
        last = read_keys(self.run.path / f"state/job_{self.attempt - 1}")
        if self.restarts > 0 and number_or_none(last.get("exit", "")) == DONE:
            return DONE, "finished before Slurm started it again"
        if self.restarts > self.most_restarts:
            return CRASHED, f"restart limit of {self.most_restarts} reached (lifecycle.max_requeues)"
        return None

    def _check_node_count(self, present: int | None) -> None:
        """Warn if the allocation has more nodes than the job. Raises Failure if it has fewer."""
        needed = self.place.job.nodes
        if present is None or present == needed or (self.is_here and present > needed):
            return
        title = f"the allocation has {present} node{'s' * (present > 1)}, but this job needs {needed}"
        if present < needed:
            raise Failure(title, FROM_SALLOC if self.is_here else COMPILED_AGAIN, DATA_BROKEN)
        print(f"warning: {title}: the others are idle until the job ends", file=sys.stderr, flush=True)

    def _task_words(self, srun: list[str]) -> list[str]:
        position = srun.index("launch.sh") - 1
        os.environ.update(container_environment(self.place.settings, os.environ))
        container = container_options(self.place.settings, self.artifact, self.run.path, self.place.project)
        return [*srun[:position], *container, "bash", str(self.artifact / "launch.sh"), *srun[position + 2 :]]

    def _task_environment(self) -> dict[str, str]:
        environ = task_environment(os.environ)
        if self.place.settings.get("cluster"):
            environ.pop("SLURM_CLUSTERS", None)  # the job already runs on that cluster
        environ.pop(STDERR, None)
        if self.place.settings.get("stderr") and not self.is_here:
            environ[STDERR] = WANTED
        environ.update(JOBC_RUN_DIR=str(self.run.path), JOBC_ATTEMPT=str(self.attempt))
        if not self.is_here:
            environ[REQUEUES] = "yes"
        environ.update(JOBC_PROJECT=str(self.place.project), JOBC_STEP_TASKS=str(self.place.settings["step_tasks"]))
        return environ

    # ---- the tasks

    def _nodes_without_access(self, environ: Mapping[str, str]) -> dict[int, str]:
        """Return the nodes that cannot read the run folder, and so could not report this there: node number -> host."""
        nodes = self.place.job.nodes
        layout = [f"--nodes={nodes}", f"--ntasks={nodes}", "--ntasks-per-node=1", "--mpi=none"]
        words = ["timeout", str(CHECK_S), "srun", *layout, "bash", "-c", _CANNOT_READ, str(self.artifact / "launch.sh")]
        answer = self.engine.ask(words, CHECK_S + 30, inherited=environ)
        sys.stderr.write(answer.errors)
        return failed_check_nodes(answer.text)

    def _record_and_describe_missing_access(self, blind: Mapping[int, str]) -> str:
        hosts = ",".join(blind.values())
        why = f"{hosts} cannot read {self.artifact}: storage.root must be a folder that all nodes can read"
        first = self.run.path / f"exit/{self.attempt}/first"
        write_small_file(first, str(DATA_BROKEN), {"node": next(iter(blind)), "reason": why})
        return why

    def _run_groups_and_tasks(
        self, words: list[str], group_words: Sequence[list[str]], environ: Mapping[str, str]
    ) -> int:
        """Run the groups' commands for as long as the tasks, and return the worst exit code of the nodes."""
        head = first_host(os.environ.get("SLURM_JOB_NODELIST", ""))
        group_environ = {**environ, "JOBC_HEAD_ADDR": head}
        del group_environ["JOBC_STEP_TASKS"]  # describes the ranks' step
        group_environ.pop(STDERR, None)
        try:
            try:
                self._groups.start(group_words, group_environ, self.run.path)
            except OSError as error:
                print(f"error: cannot start the command of a group: {error.strerror}", file=sys.stderr)
                return CRASHED
            return self.run.worst_recorded_code(self._run_tasks(words, environ), self.place.job.nodes)
        except OSError as error:  # returned, not raised, so that the job's end is recorded and its secrets are removed
            print(f"error: cannot supervise the job: {error}", file=sys.stderr)
            return CRASHED
        finally:
            self._groups.end()

    def _run_tasks(self, words: list[str], environ: Mapping[str, str]) -> int:
        """Run srun, forward signals to its tasks, and return its exit status.

        srun waits for every task, even on a lost node, until Slurm considers that node down. This method therefore
        terminates srun once a node has failed and the live nodes have had enough time to end. (srun --wait would not
        help: it counts from the end of any task, even a successful one while rank 0 is still saving.)
        """
        try:
            srun = spawn_ignoring_sigint(words, environ)
        except OSError as error:
            print(f"error: cannot run {words[0]}: {error.strerror}", file=sys.stderr)
            return CRASHED
        first, is_ended = self.run.path / f"exit/{self.attempt}/first", False
        failed_at: float | None = None
        while srun.poll() is None:
            self._wait_for_signals(LOOK_S)
            if not self._groups.failure and self._groups.check_for_failure():
                print(f"error: {self._groups.failure}; stopping the ranks", file=sys.stderr, flush=True)
                self._signal_steps()
            # no failure, it was removed because the ranks restart in place, or an I/O error (Path.exists() would raise)
            if not os.path.exists(first):
                failed_at = None
                continue
            failed_at = time.monotonic() if failed_at is None else failed_at
            if not is_ended and time.monotonic() - failed_at > self.place.settings["kill_after_s"]:
                srun.terminate()
                is_ended = True
        return srun.returncode

    def _wait_for_signals(self, timeout_s: float) -> None:
        for arrived in self._signals.wait(timeout_s)[0]:
            if arrived == signal.SIGUSR2:
                if self._is_time_limit_shorter_than_notice():
                    continue
                self.asked = "time"
                print("jobc: the time limit is near: asking the ranks to exit", file=sys.stderr, flush=True)
            elif arrived in (signal.SIGTERM, signal.SIGINT):
                self.asked = self.asked or "term"
            if arrived in (signal.SIGUSR2, signal.SIGINT):
                self._signal_steps()

    def _is_time_limit_shorter_than_notice(self) -> bool:
        """Return whether Slurm sent SIGUSR2 as soon as the job started. The ranks then run until the time limit."""
        notice_s = self.place.settings["kill_after_s"]
        limit_s = parse_time_limit(self.engine.ask(["scontrol", "show", "job", self.job_id]).text)
        if limit_s is None or limit_s > notice_s:
            return False
        line = (
            f"the time limit is {limit_s} s, shorter than the {notice_s} s of --signal: the ranks get no early notice"
        )
        print(f"jobc: {line}", file=sys.stderr, flush=True)
        return True

    def _signal_steps(self) -> None:
        """Send SIGTERM to the ranks' step with scancel: srun would kill the tasks."""
        is_shared = self.is_here or self.place.settings.get("has_groups")
        target = recorded_step_id(self.run.path, self.attempt) if is_shared else self.job_id
        if target:
            self.engine.ask(["scancel", "--signal=TERM", target])

    # ---- the end

    def _requeue_or_record_end(self, code: int) -> int:
        """Requeue the job or record its end. Return its exit code."""
        shown = "" if self.is_here else self.engine.ask(["scontrol", "show", "job", self.job_id]).text
        most, has_left = self.most_restarts, self.restarts < self.most_restarts
        limits = (self.restarts, most, self.run.is_stopped)
        start = decide_next_start(shown, code, self.asked, *limits) if has_left else ""
        cause = describe_end(shown, code, self.asked, self.restarts)
        if start:
            reason = f"{cause}; requeued ({self.restarts + 1} of at most {most} times)"
            self._record_job(reason=reason)
            if start == "queued" or self._requeue_job(code):
                self._print_to_log(f"{reason}: attempt {self.attempt + 1} starts by itself")
                return code
        elif self._groups.failure:
            return self._record_and_return_code(CRASHED, self._groups.failure)
        if self.is_here or code not in (PREEMPTED, PEER_LOST):
            return self._record_and_return_code(code, MEANING[code])
        limit = f", because lifecycle.max_requeues={most}{' is used up' * (most > 0)}"
        why = "" if has_left or cause == "cancelled" else limit
        reason = f"{cause}; not requeued{', because Slurm rejects the requeue' if start else why}"
        self._print_to_log(reason)
        self._print_to_log(f"resume with: {self.engine.resume(self.run)}")
        return self._record_and_return_code(code, reason)

    def _print_to_log(self, line: str) -> None:
        """Print a line, and append it to the log of node 0, which has ended. `jobctl logs` prints that log."""
        print(f"jobc: {line}", file=sys.stderr, flush=True)
        with contextlib.suppress(OSError):
            log = os.open(self.run.path / "logs/node_00.log", os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK)
            with os.fdopen(log, "w") as file:
                file.write(f"jobc: {line}\n")

    def _requeue_job(self, code: int) -> bool:
        nodes = os.environ.get("SLURM_JOB_NODELIST", "")
        lost = lost_nodes(self.engine, nodes) if code == PEER_LOST else []
        if lost:
            print(f"node {','.join(lost)} does not respond: the next attempt will not use it", flush=True)
        return requeue_without_lost_nodes(self.engine, self.run.path / "state", self.job_id, nodes, lost)

    def _record_job(self, code: int | None = None, reason: str = "") -> None:
        end = {"exit": "" if code is None else code, "reason": reason}
        keys = {"job_id": self.job_id, **end, "here": "yes" if self.is_here else ""}
        write_small_file(self.run.path / f"state/job_{self.attempt}", keys=keys)

    def _record_and_return_code(self, code: int, reason: str) -> int:
        """Record the run's end, remove its secrets, and return the exit code."""
        with contextlib.suppress(OSError):  # a full disk
            self._record_job(code, reason)
        delete_run_secrets(self.run.path)
        return code


def parse_time_limit(shown: str) -> int | None:
    """Return a job's time limit in seconds, or None without one. shown: the output of `scontrol show job`"""
    found = re.search(r"\bTimeLimit=(?:(\d{1,9})-)?(\d\d):(\d\d):(\d\d)\b", shown)
    if found is None:
        return None
    days, hours, minutes, seconds = (int(digits or 0) for digits in found.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def create_or_find_run(job_id: str) -> Path:
    """Create the run for a job that was queued by hand, or return the existing one if Slurm has restarted the job."""
    words = [sys.executable, "-I", "-S", sys.argv[0], "submit", "--only-prepare", "--run-id", f"slurm-{job_id}"]
    submit = subprocess.run(words, stdout=subprocess.PIPE, check=False)
    if submit.returncode:
        sys.exit(submit.returncode)
    return Path(os.fsdecode(submit.stdout).rstrip("\n"))


def attempt_artifact(run: Path, first_attempt: int, attempt: int) -> Path:
    """Return an attempt's artifact. If the run does not contain it, link or copy that of the job's first attempt."""
    numbers = copy_number_by_attempt(run)
    if attempt not in numbers and not link_attempt_to_copy(run, attempt, numbers[first_attempt]):
        unfinished = run / f"artifact/.{attempt}.{os.getpid()}"
        shutil.copytree(run / f"artifact/{numbers[first_attempt]}", unfinished, symlinks=True)
        unfinished.rename(run / f"artifact/{attempt}")
    return run / f"artifact/{copy_number_by_attempt(run)[attempt]}"


def task_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return srun's environment, without variables left over from an allocation or another job."""
    names = [name for name in environ if name not in _FOREIGN and not name.startswith(_FOREIGN_PREFIXES)]
    return {name: environ[name] for name in names}


def failed_check_nodes(text: str) -> dict[int, str]:
    """Return the nodes in the check's output, as an ordered mapping from node number to host."""
    nodes = re.findall(r"^([0-9]{1,9}) (\S+)$", text, re.MULTILINE)
    return dict(sorted((int(number), host) for number, host in nodes))


def spawn_ignoring_sigint(words: list[str], environ: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start a program that ignores Ctrl-C, as a shell's background jobs do. Raises OSError."""
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        return subprocess.Popen(words, env=dict(environ), stdin=subprocess.DEVNULL)
    finally:
        signal.signal(signal.SIGINT, handler)
