"""Engine for backends whose nodes are listed hosts, or addresses of this machine: ssh, pdsh, accelerate, local.

In:  the artifact's settings (.jobc/job.json, keys `hosts`, `storage`, `code`, `secrets`, `procs`, `gpus`) and its
     hosts.txt.
Out: nodes started by `jobctl task` on each host. Their supervisors need neither the connection nor this machine.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from ..exit_codes import CRASHED, DATA_BROKEN, INTERRUPTED, MEANING, RENDEZVOUS_FAILED
from ..node.node_start import exec_program
from ..run_folder.run import Run, jobctl_command, quote_shell_word
from ..run_folder.run_secrets import delete_run_secrets, save_secret
from ..system.command_line import SignalReceived
from ..system.failure import Failure, print_failure
from ..system.untrusted_files import Unreadable
from .check_table import Table
from .engine import Job
from .hosts import (
    HOST,
    HOST_S,
    HostEntry,
    LocalNodesClient,
    artifact_client,
    hosts_of,
    print_to_stderr,
    print_to_stdout,
    read_hosts,
)
from .log_files import LogRequest
from .new_run import NewRun, temporary_run
from .print_logs import print_logs
from .starting_engine import StartingEngine

if TYPE_CHECKING:
    from .artifact_location import Place
    from .host_copies import HostCopies
    from .host_updates import HostStateCopier
    from .hosts import Say

# JOBCTL ARGUMENT…: run the run's jobctl
RUN_PROGRAM = (
    '[ -r "$0" ] || { echo "FAIL  $0 does not exist here: %s"; exit 65; }; '
    "command -v python3 >/dev/null || { echo 'FAIL  python3 not found: install Python 3.8 or newer'; exit 65; }; "
    'exec python3 -I -S "$0" "$@"'
)
WHY_UNSEEN = "storage.root must be on storage that all hosts share"
WHY_UNSEEN_COPY = "was the run removed?"


class HostsEngine(StartingEngine):
    """Engine for a job with one node on each host."""

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self.client = artifact_client(job.settings)
        self.has_copies = job.settings.get("storage") == "node"  # each host has its own run folders
        self.sees_ranks = not self.has_copies
        self.live_every_s = 3 if self.has_copies else 1

    # ---- starting

    def add_submit_options(self, parser: argparse.ArgumentParser) -> None:
        text = (
            "return when all nodes are up; by default, wait and exit with the job's exit code. The run continues if "
            "this program or machine stops; Ctrl-C stops the run"
        )
        is_detached = self.job.settings.get("detach") is True
        parser.add_argument("--detach", action="store_true", default=is_detached, help=text)
        text = "create the run folder and print its path; then start RUN/artifact/0/launch.sh RANK on each host"
        parser.add_argument("--only-prepare", action="store_true", help=text)

    def require_startable(self, run: Run | None) -> None:
        """Raise Failure if hosts.txt is damaged, or if the hosts lack the run's checkpoints."""
        hosts = self.hosts()
        if run is not None and (copies := self._copies(run)):
            copies.require_checkpoint_hosts(run, hosts)

    def hosts(self) -> list[HostEntry]:
        """Return this artifact's hosts. Raises Failure."""
        file = self.job.artifact / "hosts.txt"
        hosts = read_hosts(file)
        if len(hosts) != self.job.nodes:
            title = f"{file} does not name {self.job.nodes} hosts, one per line"
            raise Failure(title, "compile the job again with --force")
        return hosts

    def can_nodes_read_folder(self, folder: Path, new: NewRun) -> bool:
        """Return whether the nodes can access the folder.

        They can if they run on this machine, or if the folder and the run are on the same shared file system.
        """
        return isinstance(self.client, LocalNodesClient) or (
            not self.has_copies and super().can_nodes_read_folder(folder, new)
        )

    def start(self, new: NewRun, init_from: str, options: argparse.Namespace) -> int:
        """Start all nodes, then follow them until they have ended; Ctrl-C stops the run."""
        run = new.run
        with self.secrets_and_copies_of(new, init_from) as copies:
            if options.only_prepare:
                new.keep()
                print(run.path)
                return 0
            self.send_to_hosts(new, copies)
            new.print_started(f" in {quote_shell_word(str(run.path))}")
            new.keep()
        try:
            code = self.run_task(new, "start", print_to_stderr)
            self._forget_secrets(run)  # every running node has read them
        except BaseException as error:
            self._send_stop_signals(run, "TERM", "QUIT")
            if isinstance(error, KeyboardInterrupt):
                return INTERRUPTED
            raise
        if code:
            self._send_stop_signals(run, "QUIT")
            why = f"not all of the {self.job.nodes} nodes could be started, so all were stopped"
            known = (DATA_BROKEN, RENDEZVOUS_FAILED)
            raise Failure(why, "jobctl preflight checks each host", code if code in known else CRASHED)
        return 0 if options.detach else self._print_until_ended(run, new.artifact)

    @contextlib.contextmanager
    def secrets_and_copies_of(self, new: NewRun, init_from: str = "") -> Iterator[HostCopies | None]:
        """Save a new run's secrets, and yield its copies on the hosts, if any. If the block raises, remove both."""
        copies = self._copies(new.run)
        try:
            if init_from and copies:
                copies.require_checkpoint_hosts(Run(Path(init_from)), copies.hosts)
            for variable in self.job.settings.get("saved_secrets") or ():
                save_secret(new.run.path, variable)
            yield copies
        except BaseException:
            self._forget_secrets(new.run)
            if copies:
                copies.remove_sent_files(new.attempt)
            raise

    def send_to_hosts(self, new: NewRun, copies: HostCopies | None) -> None:
        """Send the run to the hosts if each has its own run folders. Raises Failure."""
        if not copies:
            return
        code = self.job.settings.get("code")
        worst = copies.send_attempt_files(new.attempt, str(code.get("kind")) if isinstance(code, dict) else "")
        if worst:
            why = f"not all of the {self.job.nodes} hosts received the run, so it was not started"
            raise Failure(why, "jobctl preflight checks each host", DATA_BROKEN if worst == DATA_BROKEN else CRASHED)
        copies.record_checkpoint_host()

    def run_task(self, new: NewRun, payload: str, say: Say) -> int:
        """Run `jobctl task` on all hosts, and return the worst exit code.

        A run starts on node 0 first. The other nodes start only if that succeeds, so they never wait for a
        node 0 that cannot be reached.
        """
        hosts, words = hosts_of(new.run), self.task_command(new.run, new.attempt, HOST, payload)
        if len(hosts) > 1 and payload != "preflight" and (copier := self._state_copier(new.run)):
            return copier.run_after_rendezvous(words, say)
        if payload != "start":
            return self.client.run(hosts, words, say)
        return self.client.run(hosts[:1], words, say) or self.client.run(hosts[1:], words, say)

    def task_command(self, run: Run | None, attempt: int | None, *words: str, copy: Path | None = None) -> list[str]:
        """Return the command that runs an attempt's `jobctl task` on a host, whatever the host's login shell is.

        copy: path of the artifact copy to use, if it is not the attempt's.
        """
        why = WHY_UNSEEN_COPY if self.has_copies else WHY_UNSEEN
        folder = "" if run is None else str(run.path)
        program = f"{copy or f'{folder}/artifact/{attempt}'}/jobctl"
        return ["sh", "-c", RUN_PROGRAM % why, program, "task", folder, str(attempt), *words]

    def _print_until_ended(self, run: Run, artifact: Path) -> int:
        """Print the nodes' output until all have ended, and return the run's exit code.

        SIGTERM and SIGHUP end only this program, because the run does not need it.
        """
        interrupts: list[int] = []

        def request_stop(number: int, frame: FrameType | None) -> None:
            interrupts.append(number)
            threading.Thread(
                target=self._send_stop_signals, args=(run, "TERM")
            ).start()  # so that the run's last output is printed

        previous = signal.signal(signal.SIGINT, request_stop)
        try:
            print_logs(self, run, LogRequest(follow=True, new_attempt=True))
        except (Failure, Unreadable) as error:
            print_failure(error)
        except SignalReceived:
            with contextlib.suppress(OSError):  # the terminal may be gone
                stop = jobctl_command(artifact, "stop")
                print(f"run {run.id} continues; stop it with: {stop}", file=sys.stderr, flush=True)
            raise
        finally:
            signal.signal(signal.SIGINT, previous)
        state = self.state_now(run)
        is_interrupted = bool(interrupts) and state.name == "stopped"
        print(f"run {run.id}: {MEANING[INTERRUPTED] if is_interrupted else state.text}", flush=True)
        if interrupts:
            return INTERRUPTED
        return CRASHED if state.exit_code is None else state.exit_code

    # ---- trying the nodes

    def smoke(self, place: Place) -> int:
        hosts = self.hosts()
        if self.client.run(hosts, ["true"], print_to_stderr):  # otherwise, the nodes would wait for an unreachable host
            raise Failure(f"not all of the {len(hosts)} hosts respond", "jobctl preflight checks each host")
        with self._temporary_run_on_hosts(place) as new:
            code = self.run_task(new, "smoke", print_to_stdout)
            if code:
                if copier := self._state_copier(new.run):
                    copier.copy_smoke_logs(self.job.settings.get("gpus") == 1)
                new.keep_for_logs()
                print(f"its logs are in {quote_shell_word(str(new.run.path / 'logs'))}", file=sys.stderr)
        return code

    def preflight(self, place: Place, options: argparse.Namespace) -> Table:
        table = Table([host.name for host in self.hosts()])
        with self._temporary_run_on_hosts(place) as new:
            self.run_task(new, "preflight", table.add)
        return table

    @contextlib.contextmanager
    def _temporary_run_on_hosts(self, place: Place) -> Iterator[NewRun]:
        """Yield a temporary run for the hosts. On hosts that share nothing, it is removed even if it is kept here."""
        with temporary_run(place, self, place.job.runs) as new, self.secrets_and_copies_of(new) as copies:
            self.send_to_hosts(new, copies)
            yield new
            self._forget_secrets(new.run)
            if copies:
                copies.remove_sent_files(new.attempt)

    def shell_nodes(self, place: Place, named: str) -> int:
        return len(self._run_hosts_and_artifact_for_shell(place, named)[1])

    def shell(self, place: Place, named: str, node: int, command: Sequence[str]) -> int:
        """Exec the command on a host, in the named or live run, or otherwise with the newest run's code."""
        run, hosts, copy = self._run_hosts_and_artifact_for_shell(place, named)
        attempt = run.attempt if run is not None and copy != place.artifact else 0
        words = self.task_command(run, attempt, str(node), "shell", *command, copy=copy)
        options = ["-t"] if sys.stdin.isatty() and sys.stdout.isatty() else []
        on_host = self.client.build_command(hosts[node], words, options)
        exec_program([*on_host.words], {**os.environ, **on_host.environ})

    def _run_hosts_and_artifact_for_shell(self, place: Place, named: str) -> tuple[Run | None, list[HostEntry], Path]:
        """Return the run, and the hosts and artifact for its shell.

        The run's own hosts and artifact may differ from the current ones. They are used if the run is named or live, or
        if the hosts have the artifact only in their copies of runs.
        """
        if not (self.has_copies or named or place.has_runs()):
            return None, self.hosts(), place.artifact
        run = place.choose_run(named)
        if self.has_copies or named or place.own_run is not None or self.state_now(run).is_live:
            return run, hosts_of(run), run.path / f"artifact/{run.attempt}"
        return run, self.hosts(), place.artifact

    # ---- stopping

    def mark_stopped(self, run: Run) -> None:
        super().mark_stopped(run)
        if copies := self._copies(run):
            copies.mark_stopped()

    def signal_or_cancel(self, run: Run, name: str) -> None:
        """Signal the supervisors. On hosts, the stop mark has the effect of TERM."""
        if isinstance(self.client, LocalNodesClient):
            super().signal_or_cancel(run, name)
        elif name != "TERM":
            words = self.task_command(run, run.attempt, HOST, "signal", name)
            self.client.run(hosts_of(run), words, timeout_s=HOST_S)

    def _send_stop_signals(self, run: Run, *names: str) -> None:
        for name in names:
            try:
                self.mark_stopped(run)
                self.signal_or_cancel(run, name)
            except Failure as failure:
                print_failure(failure)

    # ---- copies of runs on the hosts

    def fetch(self, what: str, runs: Sequence[Run]) -> None:
        for run in runs:
            if not (run.is_mine and (copier := self._state_copier(run))):
                continue
            if what == "secrets":
                self._forget_secrets(run)
            elif what == "state":
                copier.copy_liveness()
            elif what == "news":
                copier.copy_states_and_metrics()
            else:
                copier.copy_logs(what)

    def _copies(self, run: Run) -> HostCopies | None:
        """Return the run's copies on its hosts, or None if the hosts share the run folder."""
        if not self.has_copies:
            return None
        from .host_copies import HostCopies  # packed only in jobs with storage.run=node

        return HostCopies(self.client, run)

    def _state_copier(self, run: Run) -> HostStateCopier | None:
        """Return what copies the run's state from its hosts, or None if the hosts share the run folder."""
        if not self.has_copies:
            return None
        from .host_updates import HostStateCopier

        procs = self.job.settings.get("procs")
        return HostStateCopier(self.client, run, self.job.nodes, procs if isinstance(procs, int) else 1)

    def _forget_secrets(self, run: Run) -> None:
        """Remove the run's secrets from this machine, and from its hosts if they have copies of the run."""
        if copies := self._copies(run):
            copies.forget_secrets()
        else:
            delete_run_secrets(run.path)
