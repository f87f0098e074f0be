"""Run the artifact's verbs on Kubernetes: start and stop runs, and check the nodes. Packed into jobctl.

On this machine, a run is only a record (engines/record_engine.py); the run itself, with its logs, is on the pods'
storage. Python 3.8.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from ....runtime.engines.artifact_location import Place
from ....runtime.engines.check_table import Table
from ....runtime.engines.engine import Job, State
from ....runtime.engines.new_run import NewRun, temporary_run
from ....runtime.engines.record_engine import LIVE, Record, newest_record, write_record
from ....runtime.engines.starting_engine import StartingEngine, copy_user_code
from ....runtime.exit_codes import DATA_BROKEN
from ....runtime.run_folder.run import Run
from ....runtime.run_folder.submitted_values import SubmittedValues
from ....runtime.system.failure import Failure
from ....runtime.system.streams import run_attached_to_terminal
from ....runtime.system.text import one_line
from .cluster import Cluster, FoundObject, live_object_failure
from .object_creation import ObjectCreator, PodRequest, pack_code, read_packed_code
from .pods import running_pods
from .run_trial import run_trial
from .storage_pod import StoragePods
from .storage_reading import JOIN, StorageReadingEngine

# Run by bash in a pod, with the run folder as argument. Pods of this job that start later see the uid and exit
# (join.py).
MARK = 'mkdir -p -- "$1/control" && echo "$JOBC_JOB_UID" >"$1/control/STOP"'


class KubernetesEngine(StorageReadingEngine, StartingEngine):
    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self._unmarked: set[Path] = set()  # runs whose pods have no stop mark

    def resume_command(self, run: Run, state: State) -> str:
        return "" if self.job.settings.get("storage") == "node" else super().resume_command(run, state)

    # ---- stopping

    def mark_stopped(self, run: Run) -> None:
        if record := newest_record(run):
            self._write_stop_mark(record)
        super().mark_stopped(run)

    def _write_stop_mark(self, record: Record) -> None:
        """Write the stop mark where the pods look for it.

        If the pods share a folder, any one of them writes the mark; otherwise, each pod does. If the cluster refuses
        this, signal_or_cancel() deletes the object, because pods without a mark would be replaced after they end.
        """
        cluster, why = self.cluster(record), ""
        for pod in running_pods(self.pods(record)):
            answer = cluster.run_in_pod(pod.name, "bash", "-c", MARK, "-", self.path_on_nodes(record.run, pod.node))
            if answer.code == 0 and self.job.settings.get("storage") != "node":
                why = ""
                break
            why = why or (answer.errors.strip() if answer.code else "")
        if why and running_pods(KubernetesEngine(self.job).pods(record)):
            self._unmarked.add(record.run.path)
            what = f"{cluster.target.kind} {cluster.target.object} is deleted instead"
            print(f"warning: cannot write the stop mark in a pod: {one_line(why)}; {what}", file=sys.stderr)

    def signal_or_cancel(self, run: Run, name: str) -> None:
        """Send the signal to PID 1 in each pod.

        Instead, the object is deleted if the signal is KILL, no pod has started, or the pods have no stop mark.
        """
        record = newest_record(run)
        if record is None:
            return
        engine, cluster = KubernetesEngine(self.job), self.cluster(record)
        pods = engine.pods(record)
        is_deleted = name == "KILL" or run.path in self._unmarked
        for pod in running_pods(pods) if not is_deleted else ():
            cluster.run_in_pod(pod.name, "bash", "-c", f"kill -{name} 1")
        if is_deleted or not any(pod.phase in ("Running", "Succeeded") for pod in pods):
            if engine.observed_state(run).state != LIVE:
                return  # by now, another object may have the same name
            engine.save_job_output(record)
            engine.delete_object(record)

    # ---- starting

    points_at_a_time = None
    default_console = "the log of node 0"
    default_shell = "the live run; if no run is live, a pod without GPUs is created"

    def add_submit_options(self, parser: argparse.ArgumentParser) -> None:
        text = "wait until the job ends, and exit with its exit code"
        parser.add_argument("--wait", dest="how", action="store_const", const="wait", default="", help=text)
        text = "record the run and print its path, but submit nothing"
        parser.add_argument("--only-prepare", dest="how", action="store_const", const="only-prepare", help=text)
        text = "first delete the pods and logs that an ended run of this job left in the cluster"
        parser.add_argument("--replace", action="store_true", help=text)

    def check_before_start(self, options: argparse.Namespace) -> int | None:
        if self.job.settings.get("storage") == "node" and (options.resume or options.fork):
            title = "this job's runs are deleted with their pods, so there is nothing to resume"
            hint = "to keep runs, put storage.root on a mounted claim, or set storage.run=object"
            raise Failure(title, hint, DATA_BROKEN)
        return None

    def can_nodes_read_folder(self, folder: Path, new: NewRun) -> bool:
        return False  # a pod cannot access this machine's folders

    def start(self, new: NewRun, init_from: str, options: argparse.Namespace) -> int:
        run, before, code = new.run, newest_record(new.run), None
        if self._sends_code:
            code = pack_code(run.path) if new.attempt == 0 else read_packed_code(run.path)
        if options.how == "only-prepare":
            new.keep()
            print(run.path)
            return 0
        cluster = self._cluster_of_artifact()
        leftovers = cluster.list_companions()  # before find_object(), so that a job that starts later is not included
        found = _replaceable_object(cluster, before.keys.get("uid", "") if before is not None else "", options.replace)
        fork_of = Path(init_from).name if new.attempt == 0 else ""
        submitted = SubmittedValues.read(run.path).encode_for_variable()
        request = PodRequest("train", run.id, fork_of, code=code, submitted=submitted)
        creator = ObjectCreator(cluster, self.job.artifact)
        creator.require_accepted(request)
        cluster.delete_found_object(found)
        cluster.remove_leftovers(leftovers)
        self._create_recorded_objects(new, creator, request)
        new.print_started(f": {cluster.target.kind} {cluster.target.object} in {cluster.target}")
        return self.wait(run) if options.how == "wait" else 0

    def _create_recorded_objects(self, new: NewRun, creator: ObjectCreator, request: PodRequest) -> None:
        """Create the objects. The record is written first, so that no job runs without one."""

        def record(uid: str) -> None:
            write_record(new.run, new.attempt, {"uid": uid, **creator.cluster.target._asdict()})

        record("")
        try:
            creator.create(request, record)
        except BaseException:
            if creator.may_be_there:
                new.keep()
                print(f"run {new.run.id} may be live: see jobctl status; jobctl stop ends that run", file=sys.stderr)
            else:
                os.unlink(new.run.path / f"state/job_{new.attempt}")
            raise
        new.keep()

    # ---- checking

    def smoke(self, place: Place) -> int:
        lines, is_good = self._run_trial(place, self._cluster_of_artifact(), "smoke")
        for node, line in lines:
            print(f"{node}: {line}")
        return 0 if is_good else 1

    def add_preflight_options(self, parser: argparse.ArgumentParser) -> None:
        text = "only ask the cluster whether it would accept the job; start no pods"
        parser.add_argument("--queue-only", action="store_true", help=text)

    def preflight(self, place: Place, options: argparse.Namespace) -> int:
        cluster = self._cluster_of_artifact()
        creator = ObjectCreator(cluster, self.job.artifact)
        if why := creator.rejection_reason(PodRequest("preflight")):
            failure = creator.rejection_failure("rejects the job", why)
            print(f"FAIL  {one_line(failure.title)}" + (f"\n      hint: {failure.hint}" if failure.hint else ""))
            return 1
        print(f"ok    the cluster accepts the job in {cluster.target}", flush=True)
        if options.queue_only:
            return 0
        (lines, is_good), table = self._run_trial(place, cluster, "preflight"), Table(map(str, range(self.job.nodes)))
        for node, line in lines:
            if not line.startswith("jobc: "):
                table.add(f"{node}: {line}")
        return max(table.print(), 0 if is_good else 1)

    def _run_trial(self, place: Place, cluster: Cluster, payload: str) -> tuple[list[tuple[int, str]], bool]:
        request = PodRequest(payload, f"{payload}-{os.urandom(4).hex()}", suffix=f"-{payload}")
        if self._sends_code:
            with temporary_run(place, self) as new:
                copy_user_code(place, self, new)
                request = request._replace(code=pack_code(new.run.path))
        return run_trial(ObjectCreator(cluster, self.job.artifact), request, self._start_timeout_s)

    def shell(self, place: Place, named: str, node: int, command: Sequence[str]) -> int:
        """Open a shell in one of the run's pods if the run is live, else in a separate pod without GPUs."""
        run = place.choose_run(named) if named or place.has_runs() else None
        words = [*JOIN, "shell", *command]
        terminal = ["--stdin", "--tty"] if sys.stdin.isatty() and sys.stdout.isatty() else ["--stdin"]
        record = newest_record(run) if run is not None else None
        if run is None or record is None or self.observed_state(run).state != LIVE:
            with StoragePods(self.job, self._start_timeout_s) as pods:
                return run_attached_to_terminal(
                    pods.command_in_pod(self._cluster_of_artifact(), *words, options=terminal)
                )
        pod = next((pod for pod in reversed(running_pods(self.pods(record))) if pod.node == node), None)
        if pod is None:
            raise Failure(f"node {node} of run {run.id} has no running pod", "jobctl status prints the reason")
        return run_attached_to_terminal(self.cluster(record).exec_command(pod.name, *words, options=terminal))

    @property
    def _sends_code(self) -> bool:
        code = self.job.settings.get("code")
        return isinstance(code, dict) and code.get("kind") == "snapshot"


def _replaceable_object(cluster: Cluster, uid: str, may_replace: bool) -> FoundObject:
    """Return the job's object, if there is one. Raises Failure if the object has not ended or may not be replaced.

    uid: the uid of the run's previous object, which may always be replaced
    """
    found, target = cluster.find_object(), cluster.target
    if found.uid and not found.has_ended:
        raise live_object_failure(found, target)
    if found.uid and not may_replace and found.uid != uid:
        hint = "jobctl submit --replace deletes the object and its pods' logs; logs on storage are kept"
        owner = f"started by {found.owner or 'someone'}"
        raise Failure(f"{target.kind} {target.object} has ended in {target}, {owner}", hint)
    return found
