"""Start the job, a check of its nodes, or a shell on a node: submit, smoke, preflight, shell. Packed into jobctl."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from ....runtime.engines.artifact_location import Place
from ....runtime.engines.check_table import Table
from ....runtime.engines.log_files import LogRequest
from ....runtime.engines.new_run import NewRun, temporary_run
from ....runtime.engines.record_engine import Record, newest_record, write_record
from ....runtime.engines.starting_engine import StartingEngine, copy_user_code
from ....runtime.exit_codes import CRASHED, DONE
from ....runtime.run_folder.run import Run
from ....runtime.system.failure import Failure, print_failure
from ....runtime.system.streams import print_client_output, run_attached_to_terminal
from ....runtime.system.text import printable
from .client import SkypilotClient, cluster_in_record, describe_job, sky_logs_arguments, ssh_command_for_node
from .launch import (
    LaunchedPayload,
    prepare_folder_to_send,
    require_files_to_send,
    run_and_capture,
    sky_launch_arguments,
    sky_secret_options,
)
from .parse_output import cost_estimate_lines, join_last_lines, node_check_line, parse_job_id

# run by bash on a node; $1: run folder, $2: attempt, $3: secret or node
_JOIN = 'cd && cd -- "$1" && exec python3 -I -S "artifact/$2/jobctl" join'
_SAVE_SECRET = f'{_JOIN} secret "$PWD" "$3"'
_FORGET_SECRETS = f'{_JOIN} forget "$PWD"'
_SHELL = 'cd && cd -- "$1" && export JOBC_RUN_DIR=$PWD && exec bash "artifact/$2/launch.sh" "$3" shell "${@:4}"'
TRIAL_S = 1  # pause between queries about whether a check has ended


class StartingSkypilot(SkypilotClient, StartingEngine):
    points_at_a_time = None
    default_shell = "the newest run, whose cluster must be up"

    def add_submit_options(self, parser: argparse.ArgumentParser) -> None:
        text = "print the output until the job ends, and exit with its exit code"
        parser.add_argument("--wait", action="store_true", help=text)
        text = "record the run and print its path, but submit nothing"
        parser.add_argument("--only-prepare", action="store_true", help=text)

    def check_before_start(self, options: argparse.Namespace) -> int | None:
        if not options.only_prepare:
            self._require_startable()
        return None

    def _require_startable(self) -> None:
        self.require_client()
        require_files_to_send(self.job.settings)

    def can_nodes_read_folder(self, folder: Path, new: NewRun) -> bool:
        return False  # the nodes have only files sent from this machine

    def start(self, new: NewRun, init_from: str, options: argparse.Namespace) -> int:
        """Send the attempt, and print how to follow it. With --wait, print its output until it ends."""
        run = new.run
        if options.only_prepare:
            new.keep()
            print(run.path)
            return 0
        kind = "managed" if self.job.settings.get("managed") else ""
        record = self._launch_payload(LaunchedPayload("train", run, run.id, new.attempt, Path(init_from).name), kind)
        new.keep()
        new.print_started(f": {describe_job(record)}")
        return self._follow_to_the_end(run) if options.wait else 0

    def _launch_payload(self, launch: LaunchedPayload, kind: str) -> Record:
        """Start the payload on the nodes, and record the job in the run. kind: "managed", or empty"""
        folder, settings = prepare_folder_to_send(launch), self.job.settings
        try:
            code, text = run_and_capture(["sky", *sky_launch_arguments(settings, launch)], self.sky_environment, folder)
        except BaseException as error:
            if not isinstance(error, Exception):  # a signal
                print("SkyPilot may have accepted the job: check with sky queue or sky jobs queue", file=sys.stderr)
            raise
        if code:
            hint = "jobctl preflight --queue-only tries again; sky check lists the enabled clouds"
            raise Failure("SkyPilot rejects the job; its messages are above", hint)
        job_id = parse_job_id(text)
        if job_id is None:
            raise Failure("SkyPilot did not print the job ID", "check with sky queue or sky jobs queue")
        keys = {"kind": kind, "cluster": str(settings.get("cluster", "")), "id": str(job_id)}
        write_record(launch.run, launch.attempt, keys)
        return Record(launch.run, launch.run.path / f"state/job_{launch.attempt}", launch.attempt, keys)

    def _follow_to_the_end(self, run: Run) -> int:
        engine = type(self)(self.job)
        try:
            engine.print_logs(run, LogRequest(follow=True))
        except Failure as failure:
            print_failure(failure)
        return engine.wait(run)

    # ---- checks and shells on the job's nodes

    def smoke(self, place: Place) -> int:
        self._require_startable()
        return self._run_trial(place, "smoke", node_check_line)

    def add_preflight_options(self, parser: argparse.ArgumentParser) -> None:
        text = "only ask SkyPilot whether it would launch the job and what that would cost; start no machines"
        parser.add_argument("--queue-only", action="store_true", help=text)

    def preflight(self, place: Place, options: argparse.Namespace) -> Table | int:
        """Ask SkyPilot whether it would launch the job, then check the cluster's nodes."""
        self._require_startable()
        cluster = str(self.job.settings.get("cluster", ""))
        words = ["sky", "launch", "--dryrun", "--yes", "--cluster", cluster, *sky_secret_options(self.job.settings)]
        code, text = run_and_capture([*words, "task.sky.yaml"], self.sky_environment, self.job.artifact, is_shown=False)
        if code:
            print(f"FAIL  SkyPilot rejects the job: {join_last_lines(text)}")
            return CRASHED
        print("ok    SkyPilot would launch the job")
        for line in cost_estimate_lines(text):
            print(f"      {line}")
        if options.queue_only:
            return DONE
        table = Table(map(str, range(self.job.nodes)))
        sys.stdout.flush()
        code = self._run_trial(place, "preflight", partial(_add_output_line_to_table, table))
        return table if code == DONE else table.print() or code

    def _run_trial(self, place: Place, payload: str, change: Callable[[bytes], bytes | None]) -> int:
        """Run a payload on the nodes of the job's cluster. Return 0 if all nodes exit with 0.

        change: function that returns the text to print for a line of output, or None to print nothing
        """
        with temporary_run(place, self) as new:
            if payload == "preflight" or self.job.settings.get("has_setup"):  # preflight and setup read the code
                copy_user_code(place, self, new)
            record = self._launch_payload(LaunchedPayload(payload, new.run, f"{payload}-{os.urandom(4).hex()}", 0), "")
            words = ["sky", *sky_logs_arguments(record, LogRequest(follow=True))]
            print_client_output(words, change, environment=self.sky_environment, errors="merged")
            while (state := self.state_now(new.run)).is_live:
                time.sleep(TRIAL_S)
        return DONE if state.exit_code == DONE else CRASHED

    def shell(self, place: Place, named: str, node: int, command: Sequence[str]) -> int:
        """Run the command on a node of the run's cluster. Secrets stay on the node only while the command runs."""
        self.require_client()
        if self.job.settings.get("managed"):
            title = "the machines of a managed job cannot be reached from here"
            raise Failure(title, "set backend.managed=false to run on a cluster that you can reach from here")
        run = place.choose_run(named)
        record = newest_record(run)
        cluster = "" if record is None else cluster_in_record(record)
        if record is None or not cluster or self.status_of(cluster) != "UP":
            title = f"cluster {cluster or self.job.settings.get('cluster', '')} is not up"
            raise Failure(title, "start the cluster with jobctl submit, jobctl smoke or jobctl preflight")
        require_files_to_send(self.job.settings)
        secrets = self.job.settings.get("secrets", ())
        try:
            for name in secrets:
                self._save_secret(record, node, name)
            options = ["-t"] if sys.stdin.isatty() and sys.stdout.isatty() else []
            words = self._ssh_command(record, node, _SHELL, str(node), *command, options=options)
            return run_attached_to_terminal(words)
        finally:
            if secrets:
                self.ask(self._ssh_command(record, node, _FORGET_SECRETS))

    def _save_secret(self, record: Record, node: int, name: str) -> None:
        """Save a secret for launch.sh. The secret is sent on stdin, so that no command line contains it."""
        answer = self.ask(self._ssh_command(record, node, _SAVE_SECRET, name), text=os.environ[name])
        if answer.code:
            print(printable(answer.errors), end="", file=sys.stderr)
            raise Failure(f"cannot save secret {name} on node {node}", "the messages from ssh are above")

    def _ssh_command(
        self, record: Record, node: int, script: str, *words: str, options: Sequence[str] = ()
    ) -> list[str]:
        """Return the ssh command that runs a bash script with the run folder, the attempt and `words` as arguments."""
        command = ["bash", "-c", script, "-", self.path_on_nodes(record.run, node), str(record.run.attempt), *words]
        return ssh_command_for_node(cluster_in_record(record), node, command, options)


def _add_output_line_to_table(table: Table, line: bytes) -> None:
    kept = node_check_line(line)
    if kept is not None:
        table.add(printable(kept.decode(errors="replace")).rstrip("\n"))
