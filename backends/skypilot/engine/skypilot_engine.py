"""Run the artifact's verbs on SkyPilot, and query SkyPilot about a run's job and cluster. Packed into jobctl.

RUN/state/job_ATTEMPT records the SkyPilot job: kind (managed or empty), cluster, id. Python 3.8.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from ....runtime.engines.engine import Job, NodeLine, State
from ....runtime.engines.log_files import LogRequest
from ....runtime.engines.record_engine import ENDED, GONE, LIVE, MARK_ON_NODE, Record, newest_record
from ....runtime.exit_codes import CRASHED, DONE, PEER_LOST, PREEMPTED
from ....runtime.run_folder.run import Run, jobctl_command, last_progress
from ....runtime.run_folder.run_folder import replace_file
from ....runtime.run_folder.stopping import write_stop_mark
from ....runtime.system.failure import Failure
from ....runtime.system.streams import print_client_output, print_lines
from ....runtime.system.text import one_line, printable
from ....runtime.system.untrusted_files import open_regular
from ....runtime.system.values import number_or_none
from .client import (
    cluster_in_record,
    describe_job,
    is_managed_job,
    job_id_in_record,
    saved_output_file,
    saved_output_lines,
    sky_logs_arguments,
    ssh_command_for_node,
)
from .parse_output import first_failure_reason, status_rows, strip_colors, strip_colors_from_bytes, worst_output_code
from .starting import StartingSkypilot

_ENDED = re.compile("SUCCEEDED|FAILED.*|CANCELLED")


class SkypilotEngine(StartingSkypilot):
    """Queries sky only once for each job and each cluster."""

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self._words: dict[Path, str] = {}  # record file -> STATUS in sky queue
        self._marked: set[Path] = set()  # runs whose stop mark a managed job's nodes can see

    def ask_engine(self, record: Record) -> str:
        cluster, job_id = cluster_in_record(record), job_id_in_record(record)
        if not cluster or not job_id:
            raise Failure(f"{record.path} has no valid cluster and job ID", "jobctl submit writes these keys")
        words = ["jobs", "queue", "--output", "json", "--limit", "1000"]
        table = self.run_sky_for_json(*(words if is_managed_job(record) else ["queue", "--output", "json", cluster]))
        statuses = [str(row.get("status", "")) for row in status_rows(table) if str(row.get("job_id")) == job_id]
        self._words[record.path] = status = "".join(statuses[:1]).rpartition(".")[2]
        if not status:
            return GONE
        return ENDED if _ENDED.fullmatch(status) else LIVE

    def engine_state_name(self, run: Run) -> str:
        record = self.observed_state(run).record
        return self._words.get(record.path, "") if record else ""

    def save_job_output(self, record: Record) -> None:
        """Save the job's output without colors. With several nodes, each line starts with its node, as in `1: line`."""
        printed = self.run_sky(*sky_logs_arguments(record, LogRequest()))
        lines = [strip_colors(line) for line in printed.split("\n")]
        with contextlib.suppress(OSError):
            replace_file(saved_output_file(record), "\n".join(lines).encode())

    def job_exit_code_and_reason(self, record: Record) -> tuple[int, str]:
        status, lines = self._words.get(record.path, ""), saved_output_lines(record)
        otherwise = PREEMPTED if status == "CANCELLED" else CRASHED
        code = DONE if status == "SUCCEEDED" else worst_output_code(lines) or otherwise
        return code, first_failure_reason(lines, code) or f"SkyPilot reports {status}"

    def exit_code_and_reason_on_storage(self, record: Record) -> tuple[int, str] | None:
        """Return the exit code and reason recorded on the storage, or None if the job may still run or be recovered."""
        path = record.run.path / "ends" if self.is_in_bucket else Path(self.path_on_nodes(record.run))
        if self.is_in_bucket:
            command, environment = self.depot_words_and_environment(record.run, "ends", str(path))
            answer = self.ask(command, environment=environment)
            attempt = None if answer.code else number_or_none(answer.text.strip())
        else:
            attempt = Run(path).attempt if path.is_absolute() else None
        if attempt is None or attempt < record.attempt:
            return None
        stored_run = Run(path, attempt)
        code = stored_run.worst_recorded_code(DONE, self.job.nodes)
        if code == DONE and stored_run.ended_node_count() < self.job.nodes:
            return None
        if code in (PEER_LOST, PREEMPTED) and is_managed_job(record):
            return None
        first = stored_run.first_failure()
        unknown = f"{describe_job(record)} failed, and none of its nodes recorded a reason"
        return code, f"node {first['node']}: {first['reason']}" if first else unknown

    def live_state(self, record: Record) -> State:
        status, location = self._words.get(record.path, ""), describe_job(record)
        if record.run.is_mine and status != "RUNNING":
            return State("queued" if status == "PENDING" else "starting", f"{status.lower()}, {location}")
        name = "stopping" if record.run.is_mine and record.run.is_stopped else "live"
        return State(name, f"{name}, {location}")

    def forgotten_job_state(self, record: Record) -> State:
        if record.run.is_stopped:
            return State("stopped", "stopped, and its cluster was deleted")
        why = f"SkyPilot no longer lists {describe_job(record)}, and its result is unknown here"
        hint = self.job.settings.get("end_is", "")
        return State("gone", f"ended, or its cluster was deleted: {why}; {hint}")

    def live_run_keep_reason(self, record: Record) -> str:
        return "SkyPilot still lists the job"

    def remove_outside_run_folder(self, run: Run) -> bool:
        """Remove the run from the bucket. A run on a node's disk is deleted with the node; a run on storage is kept."""
        path = self.path_on_nodes(run)
        if not self.is_in_bucket:
            if path.startswith("/") and not (os.path.exists(path) and os.path.samefile(path, run.path)):
                print(f"  {one_line(path)} on the nodes' storage is kept", flush=True)
        elif newest_record(run) is not None:
            command, environment = self.depot_words_and_environment(run, "remove")
            if print_client_output(command, environment=environment):
                return False
        return super().remove_outside_run_folder(run)

    def nodes(self, run: Run, state: State) -> Iterator[NodeLine]:
        """Yield a line with rank 0's last metrics while the job is running."""
        record = self.observed_state(run).record
        if record is not None and self._words.get(record.path) == "RUNNING" and not self.job.settings.get("managed"):
            words = ["tail", "-c", "4096", f"{self.path_on_nodes(run)}/metrics/rank_00.jsonl"]
            metrics = self.ask(ssh_command_for_node(cluster_in_record(record), 0, words)).text
            progress = last_progress(metrics.split("\n"))
            if progress:
                yield NodeLine(0, f"of cluster {cluster_in_record(record)}", "running", "", progress)

    def notes(self, run: Run, state: State) -> Iterator[str]:
        return self.machine_cost_lines()

    def machine_cost_lines(self) -> Iterator[str]:
        settings, cluster = self.job.settings, str(self.job.settings.get("cluster", ""))
        now = self.status_of(cluster)
        down = f"{jobctl_command(self.job.artifact, 'stop')} --down"
        if settings.get("managed") and not now:
            return  # a managed job's machines end with the job; `cluster` is the one of jobctl smoke or preflight
        if not now:
            yield f"cluster {cluster} has been deleted and no longer costs anything"
        elif now == "STOPPED":
            yield f"cluster {cluster} is stopped: its disks cost money; {down} deletes them"
        else:
            yield f"cluster {cluster} is up ({self.job.nodes} nodes) and costs money or blocks nodes; {down} deletes it"
            if settings.get("idle"):
                yield str(settings["idle"])

    def logs_label_and_path(self, run: Run) -> tuple[str, str]:
        return "on the nodes in", self.path_on_nodes(run)

    # ---- logs

    def print_logs(self, run: Run, request: LogRequest) -> int:
        """Print SkyPilot's output for all nodes or one node, or a rank's log from the storage or from its node."""
        record = newest_record(run)
        if record is None:
            raise Failure(f"run {run.id} was never submitted to SkyPilot", "start a run with jobctl submit")
        if request.rank is not None:
            return self._print_rank_log(record, request.rank, request)
        node = None if request.node is None else f"{request.node}: "
        kept = saved_output_file(record)
        if self.observed_state(run).state == LIVE or (kept.is_file() and not kept.stat().st_size):
            self.require_client()
            words, change = ["sky", *sky_logs_arguments(record, request)], partial(strip_colors_from_bytes, node)
            return print_client_output(words, change, environment=self.sky_environment, errors="merged")
        if not kept.is_file():
            hint = "on a machine that can read the storage, jobctl logs --rank N prints a rank's log"
            if self.job.settings.get("storage") == "node":
                hint = "check while its cluster is up: SkyPilot removes idle clusters (backend.autostop)"
            raise Failure(f"SkyPilot no longer has the output of {describe_job(record)}", hint)
        with open_regular(kept, follow=False) as file:
            of_node = (lambda line: line if line.startswith(node.encode()) else None) if node else None
            print_lines(file, of_node, request.tail)
        return 0

    def _print_rank_log(self, record: Record, rank: int, request: LogRequest) -> int:
        """Print a rank's log from the bucket, from storage mounted on this machine, or from the rank's node."""
        run, settings, procs = record.run, self.job.settings, self.job.settings.get("procs")
        node, file = rank // (procs if isinstance(procs, int) else 1), f"logs/{request.name}"
        if self.is_in_bucket and (not request.follow or settings.get("managed")):
            words, environment = self.depot_words_and_environment(run, "cat", file)
            if print_client_output(words, tail=request.tail, environment=environment) == 0:
                return 0
        path = Path(f"{self.path_on_nodes(run, node)}/{file}")
        if path.is_absolute() and path.is_file():
            with open_regular(path, follow=False) as log:
                print_lines(log, tail=request.tail)
            return 0
        self.require_client()
        if settings.get("managed"):
            title = "the machines of a managed job cannot be reached from here"
            raise Failure(title, "jobctl logs without --rank prints the output of the job's nodes")
        if not self.status_of(cluster_in_record(record)):
            title = f"no log for rank {rank}: {describe_job(record)} no longer exists"
            raise Failure(title, str(settings.get("end_is", "")))
        lines = "+1" if request.tail is None else str(request.tail)
        remote = ["tail", "-n", lines, *(["-f"] if request.follow else []), "--", str(path)]
        return print_client_output(ssh_command_for_node(cluster_in_record(record), node, remote))

    # ---- stopping

    has_machines = True
    no_end_hint = "jobctl stop --down deletes its machines"

    def stop_signals_and_waits(self) -> list[tuple[str, int]]:
        """Return the steps of a stop. SkyPilot takes several seconds to respond, and has only one way to end a job."""
        return [("TERM", self.grace_s + 40), ("KILL", 60)]

    def mark_stopped(self, run: Run) -> None:
        record = newest_record(run)
        if record is not None:
            self._send_stop_mark(record)
        super().mark_stopped(run)

    def _send_stop_mark(self, record: Record) -> None:
        """Write the stop mark to the bucket, to storage mounted on this machine, or to the nodes."""
        run, path, settings = record.run, Path(self.path_on_nodes(record.run)), self.job.settings
        if self.is_in_bucket:
            command, environment = self.depot_words_and_environment(run, "stop")
            answer = self.ask(command, environment=environment)
            if answer.code == 0:
                self._marked.add(run.path)
                return
            print(printable(answer.errors.strip()), file=sys.stderr)
        elif path.is_absolute() and path.is_dir():
            write_stop_mark(path)
            self._marked.add(run.path)
            return
        if is_managed_job(record):
            lost = "the job is cancelled, and work since its last checkpoint is lost"
            print(f"the machines of a managed job cannot be reached from here: {lost}")
            return
        for node in range(1 if settings.get("storage") == "shared" else self.job.nodes):
            words = ["bash", "-c", MARK_ON_NODE, "-", self.path_on_nodes(run, node)]
            if self.ask(ssh_command_for_node(cluster_in_record(record), node, words)).code:
                lost = "SkyPilot cancels the job, and work since its last checkpoint may be lost"
                print(f"node {node} cannot be reached: {lost}")

    def signal_or_cancel(self, run: Run, name: str) -> None:
        """Cancel a job that cannot see the stop mark, is not running yet, or has not ended in time."""
        record, engine = newest_record(run), SkypilotEngine(self.job)
        if record is None or engine.observed_state(run).state != LIVE:
            return
        if is_managed_job(record):
            words, sees_mark = ["jobs", "cancel", "--yes"], run.path in self._marked
        else:
            words = ["cancel", "--yes", cluster_in_record(record)]
            sees_mark = engine.engine_state_name(run) == "RUNNING"
        if name != "TERM" or not sees_mark:
            self._run_sky_and_print(*words, job_id_in_record(record))

    def release_machines(self, is_asked: bool) -> None:
        """Delete the cluster if the user asked for that, or if it occupies nodes although nothing is running on it."""
        cluster = str(self.job.settings.get("cluster", ""))
        if not is_asked and self.job.settings.get("ends_with_last_job"):
            queue = self.run_sky_for_json("queue", "--skip-finished", "--output", "json", cluster)
            is_asked = not any("job_id" in row for row in status_rows(queue))
        if is_asked and self.status_of(cluster) and self._run_sky_and_print("down", "--yes", cluster):
            raise Failure(f"cluster {cluster} could not be deleted", f"sky down {cluster}")

    def _run_sky_and_print(self, *words: str) -> int:
        return print_client_output(["sky", *words], environment=self.sky_environment)
