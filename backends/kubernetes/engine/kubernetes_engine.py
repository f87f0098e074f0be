"""Kubernetes for the verbs of an artifact: starts, stops and removes runs, and prints logs. Packed into jobctl.

On this machine a run is a record (engines/records.py); the run itself, with its logs, is on the storage of the pods.
Python 3.8.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from ....runtime.engines.checking import CheckingEngine
from ....runtime.engines.engine import Job, State
from ....runtime.engines.jobs import Place
from ....runtime.engines.log_files import LogRequest
from ....runtime.engines.new_run import NewRun, temporary_run
from ....runtime.engines.records import GONE, LIVE, Record, newest_record, write_record
from ....runtime.engines.starting import copy_user_code
from ....runtime.engines.table import Table
from ....runtime.exit_codes import DATA_BROKEN
from ....runtime.run_folder.run import Run, verb_words
from ....runtime.system.command_line import print_failure
from ....runtime.system.failure import Failure
from ....runtime.system.streams import LineMerger, attached, stream
from ....runtime.system.text import one_line, printable
from ....runtime.system.values import number
from .cluster import DELETE_S, Cluster, Found, chosen_namespace, target_of_artifact
from .observing import ObservingEngine
from .pods import Pod, running
from .sending import Purpose, Sender, live_failure, pack_code, packed_code, shortened
from .storage_pod import StoragePods
from .trials import Trial, run_trial

JOIN = ("python3", "-I", "-S", "/jobc/files/start.py")  # in a pod: becomes `jobctl join`
NOT_THERE = 3  # in place of an exit code: the storage does not have the file
NEWS_S = 60  # how soon a pod must start from which status reads how a run ended
LOOK_S = 2  # interval between two checks for new pods while logs are followed
# for bash in a pod: the run folder is its argument. The uid ends pods of this job that start later (join.py)
MARK = 'mkdir -p -- "$1/control" && echo "$JOBC_JOB_UID" >"$1/control/STOP"'
_CODES = (  # for bash in a pod: the run folder is its argument
    'cd -- "$1/exit/$(ls -- "$1/artifact" | sort -n | tail -n 1)" && grep -hxE "[0-9]{1,3}" -- node_*'
)
_PREFIX = re.compile(rb"^\[pod/[^]]*-([0-9]+)-[^-]*/node\] ")


HOW = {
    "wait": "wait until the job ends, and exit with its exit code",
    "only-prepare": "record the run and print its path, but submit nothing",
}


class KubernetesEngine(ObservingEngine, CheckingEngine):
    """Starts, stops and removes runs, and prints their logs."""

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self._storage = StoragePods(job, self._start_timeout_s)
        self._unmarked: set[Path] = set()  # runs whose pods have no stop mark

    def resume_command(self, run: Run, state: State) -> str:
        """Return the resume command, or "" if runs are deleted with their pods."""
        return "" if self.job.settings.get("storage") == "node" else super().resume_command(run, state)

    def _own_cluster(self, record: Record | None = None) -> Cluster:
        """Return the objects that this artifact creates, in the cluster of a run or in the one to submit to.

        Raises Failure.
        """
        if record is None:
            context, namespace = chosen_namespace(self.ask, self.job.settings)
        else:
            context, namespace = self.cluster(record).target[-2:]
        return Cluster(self.ask, target_of_artifact(self.job.settings, self.job.nodes, context, namespace))

    # ---- the storage of the runs

    def remove_stored(self, run: Run) -> bool:
        """Remove the run from the pods' storage, through a pod beside the job."""
        record = newest_record(run)
        if record is not None and self.job.settings.get("storage") != "node":
            words = self._bucket_words(run, "remove") or ["rm", "-rf", "--", self.storage_of(run)]
            try:
                command = self._storage.command(self._own_cluster(record), *words)
            except Failure as failure:
                print_failure(failure)
                return False
            answer = self.ask(command, timeout_s=DELETE_S)
            print(printable(answer.text + answer.errors), end="", file=sys.stderr)
            if answer.code:
                return False
        return super().remove_stored(run)

    def close(self) -> None:
        self._storage.close()

    def fetch(self, what: str, runs: Sequence[Run]) -> None:
        """With `news`, read how a run ended whose object went before anybody looked: from its storage, if all nodes of
        its last attempt have left their exit code there. Through a pod, if that starts soon.
        """
        super().fetch(what, runs)
        for run in runs if what == "news" and self.job.settings.get("storage") == "shared" else ():
            reading = self.seen(run)
            if reading.record is not None and reading.state == GONE and not run.is_stopped:
                self._read_end(run, reading.record)

    def _read_end(self, run: Run, record: Record) -> None:
        with contextlib.suppress(Failure), StoragePods(self.job, NEWS_S) as pods:
            words = ("bash", "-c", _CODES, "-", self.storage_of(run))
            answer = self.ask(pods.command(self._own_cluster(record), *words))
            codes = [code for line in answer.text.split() for code in [number(line)] if code is not None]
            if answer.code == 0 and len(codes) == self.cluster(record).target.nodes:
                self.record_codes(run, codes)

    def _bucket_words(self, run: Run, *words: str) -> list[str]:
        """Return the command with which a pod uses the bucket, as this machine may not; [] without a bucket."""
        if self.job.settings.get("storage") != "object":
            return []
        return ["env", f"JOBC_RUN_ID={run.id}", *JOIN, "bucket", *words]

    # ---- logs

    def print_logs(self, run: Run, request: LogRequest) -> int:
        """Print the log of a node or a rank, or with follow and no rank the output of the pods."""
        record = newest_record(run)
        if record is None:
            raise Failure(f"run {run.id} was never submitted to a cluster", "start a run with jobctl submit")
        if request.follow and request.rank is None:
            self._follow_pods(record, request)
            return 0
        if self.seen(run).state == LIVE and (why := _why_none_has_started(self.pods(record))):
            raise Failure(f"run {run.id} has not started: {why}", "jobctl status prints what each pod is waiting for")
        procs = self.job.settings.get("procs")
        node = request.node or 0 if request.rank is None else request.rank // (procs if isinstance(procs, int) else 1)
        file = f"logs/{request.name or 'node_00.log'}"
        if request.follow and self.seen(run).state == LIVE:
            self._print_file(record, file, node, request)  # fails when the pod it reads through ends
            print(self.state_now(run).text)
            return 0
        code = self._print_file(record, file, node, request._replace(follow=False))
        if code == NOT_THERE:
            if self.job.settings.get("storage") == "node":
                hint = "jobctl logs --node N reads what an ended pod printed, as long as Kubernetes keeps the pod"
                raise Failure(f"no {file} of run {run.id}: its pod no longer exists", hint)
            raise Failure(
                f"the storage has no {file} of run {run.id}", "jobctl status reports whether the run has started"
            )
        return code

    def _follow_pods(self, record: Record, request: LogRequest) -> None:
        """Print the output of the pods until the run has ended, including new pods of a restarted Job."""
        cluster, run, followed = self.cluster(record), record.run, LineMerger()
        tail = -1 if request.tail is None else request.tail
        names: set[str] = set()
        said = ""
        with followed:
            while True:
                engine = KubernetesEngine(self.job)
                is_live = engine.seen(Run(run.path)).state == LIVE
                why = _why_none_has_started(engine.pods(record)) if is_live else ""
                if why not in ("", said):
                    said = why
                    print(f"waiting: {one_line(why)}", file=sys.stderr, flush=True)
                for pod in engine.pods(record):
                    is_wanted = request.node in (None, pod.node)
                    if is_wanted and pod.phase != "Pending" and pod.name not in names:
                        names.add(pod.name)
                        words = cluster.command(
                            "logs", "--follow", "--prefix", f"--tail={tail}", "--container=node", pod.name
                        )
                        followed.start(words, _shorter_prefix)
                if not is_live:
                    break
                time.sleep(LOOK_S)
            followed.wait()
        print(self.state_now(run).text)

    def _print_file(self, record: Record, file: str, node: int, request: LogRequest) -> int:
        """Print a file of the run and return an exit code, NOT_THERE if the file does not exist.

        Read it from a running pod, with follow until the run ends; otherwise from the storage through a new pod, or,
        where runs are deleted with their pods, print the pod's log.
        """
        cluster, storage, pods = self.cluster(record), self.job.settings.get("storage"), self.pods(record)
        running = [pod for pod in pods if pod.phase == "Running" and (storage == "shared" or pod.node == node)]
        lines = "+1" if request.tail is None else str(request.tail)
        if running:
            pod = running[0 if storage == "shared" else -1]
            command = ["tail", "-n", lines, *(["-F", "--pid=1"] if request.follow else [])]
            path = f"{self.storage_of(record.run, node)}/{file}"
            words = cluster.command("exec", pod.name, "--container=node", "--", *command, path)
            return self._missing_or_refused(cluster, pod.name, path) if stream(words, errors="dropped") else 0
        if storage != "node":
            words = self._bucket_words(record.run, "cat", file)
            errors = "kept" if words else "dropped"
            with StoragePods(self.job, self._start_timeout_s) as made:
                path, own = f"{self.storage_of(record.run)}/{file}", self._own_cluster(record)
                if stream(made.command(own, *(words or ["cat", path])), tail=request.tail, errors=errors) == 0:
                    return 0
                return NOT_THERE if words else self._missing_or_refused(own, made.pod(own), path)
        ended = [pod for pod in pods if pod.node == node]
        if not ended or not file.startswith("logs/node_"):
            return NOT_THERE
        tail = -1 if request.tail is None else request.tail
        words = cluster.command("logs", ended[-1].name, "--container=node", f"--tail={tail}")
        return NOT_THERE if stream(words, errors="dropped") else 0

    def _missing_or_refused(self, cluster: Cluster, pod: str, path: str) -> int:
        """Return NOT_THERE if a pod's storage has no such file. Raises Failure if the server refuses the question."""
        answer = cluster.k("exec", pod, "--container=node", "--", "test", "-f", path)
        if "forbidden" in answer.errors.lower():
            raise Failure(f"cannot read the storage through pod {pod}: {one_line(answer.errors.strip())}")
        return NOT_THERE

    # ---- stopping

    def mark_stopped(self, run: Run) -> None:
        record = newest_record(run)
        if record is not None:
            self._mark_in_pods(record)
        super().mark_stopped(run)

    def _mark_in_pods(self, record: Record) -> None:
        """Write the stop mark where the pods look: in any of them, or in each if it has a folder of its own.

        If that is refused, signal() deletes the object: pods without a mark would be replaced when they have ended.
        """
        cluster, why = self.cluster(record), ""
        for pod in running(self.pods(record)):
            folder = self.storage_of(record.run, pod.node)
            answer = cluster.k("exec", pod.name, "--container=node", "--", "bash", "-c", MARK, "-", folder)
            refusal = answer.errors.strip() if answer.code else ""
            if not refusal and self.job.settings.get("storage") != "node":
                why = ""
                break
            why = why or refusal
        if why and running(KubernetesEngine(self.job).pods(record)):
            self._unmarked.add(record.run.path)
            what = f"{cluster.target.kind} {cluster.target.object} is deleted instead"
            print(f"warning: cannot write the stop mark in a pod: {one_line(why)}; {what}", file=sys.stderr)

    def signal(self, run: Run, name: str) -> None:
        """Signal PID 1 of each pod. Delete the object for KILL, if no pod has started yet, or if there is no mark."""
        record = newest_record(run)
        if record is None:
            return
        engine, cluster = KubernetesEngine(self.job), self.cluster(record)
        pods = engine.pods(record)
        is_deleted = name == "KILL" or run.path in self._unmarked
        for pod in running(pods) if not is_deleted else ():
            cluster.k("exec", pod.name, "--container=node", "--", "bash", "-c", f"kill -{name} 1")
        if is_deleted or not any(pod.phase in ("Running", "Succeeded") for pod in pods):
            if engine.seen(run).state != LIVE:
                return  # another object may have its name by now
            engine.keep_evidence(record)
            engine.delete_object(record)

    # ---- starting

    points_at_a_time = None
    default_console = "the log of node 0"
    default_shell = "the live run; if none is live, a pod without GPUs is created"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        for name, text in HOW.items():
            parser.add_argument(f"--{name}", dest="how", action="store_const", const=name, default="", help=text)
        text = "first delete the pods and logs that an ended run of this job left in the cluster"
        parser.add_argument("--replace", action="store_true", help=text)

    def begin(self, options: argparse.Namespace) -> int | None:
        """Raise Failure if a run is to be continued that was deleted with its pods."""
        if self.job.settings.get("storage") == "node" and (options.resume or options.fork):
            title = "this job's runs are deleted with their pods, so there is nothing to resume"
            hint = "to keep them, put storage.root on a mounted claim, or set storage.run=object"
            raise Failure(title, hint, DATA_BROKEN)
        return None

    def sees_code(self, folder: Path, new: NewRun) -> bool:
        return False  # a pod sees no folder of this machine

    def start(self, new: NewRun, init_from: str, options: argparse.Namespace) -> int:
        """Create the objects of the job, and record them."""
        run, before, code = new.run, newest_record(new.run), None
        if self._sends_code:
            if new.attempt == 0:
                pack_code(run.path)
            code = packed_code(run.path)
        if options.how == "only-prepare":
            new.keep()
            print(run.path)
            return 0
        cluster = self._own_cluster()
        leftovers = cluster.companions()  # listed first: those of a job that starts after the next line are not in it
        found = _ended_object(cluster, before.keys.get("uid", "") if before is not None else "", options.replace)
        fork_of = Path(init_from).name if new.attempt == 0 else ""
        sender, purpose = Sender(cluster, self.job.artifact), Purpose("train", run.id, fork_of, code=code)
        sender.require_accepted(purpose)
        cluster.delete_found(found)
        for companion in leftovers:
            cluster.remove(companion)
        self._create(new, sender, purpose)
        print(f"run {run.id}: {cluster.target.kind} {cluster.target.object} in {cluster.target}")
        print(f"  follow: {verb_words(new.artifact, 'logs')} --follow")
        print(f"  stop:   {verb_words(new.artifact, 'stop')}", flush=True)
        return self.wait(run) if options.how == "wait" else 0

    def _create(self, new: NewRun, sender: Sender, purpose: Purpose) -> None:
        """Create the objects. The record is written before, so that no job is live without one."""

        def record(uid: str) -> None:
            write_record(new.run, new.attempt, {"uid": uid, **sender.cluster.target._asdict()})

        record("")
        try:
            sender.create(purpose, record)
        except BaseException:
            if sender.may_be_there:
                new.keep()
                print(f"run {new.run.id} may be live: see jobctl status; jobctl stop ends it", file=sys.stderr)
            else:
                os.unlink(new.run.path / f"state/job_{new.attempt}")
            raise
        new.keep()

    # ---- checking

    def smoke(self, place: Place) -> int:
        trial = self._run_trial(place, self._own_cluster(), "smoke")
        for node, line in trial.lines:
            print(f"{node}: {line}")
        return 0 if trial.is_good else 1

    def add_preflight_options(self, parser: argparse.ArgumentParser) -> None:
        text = "only ask the cluster whether it would accept the job; start no pods"
        parser.add_argument("--queue-only", action="store_true", help=text)

    def preflight(self, place: Place, options: argparse.Namespace) -> int:
        cluster = self._own_cluster()
        why = Sender(cluster, self.job.artifact).why_refused(Purpose("preflight"))
        if why:
            print(f"FAIL  the cluster rejects the job in {cluster.target}: {one_line(shortened(why))}")
            return 1
        print(f"ok    the cluster accepts the job in {cluster.target}", flush=True)
        if options.queue_only:
            return 0
        trial, table = self._run_trial(place, cluster, "preflight"), Table(map(str, range(self.job.nodes)))
        for node, line in trial.lines:
            if not line.startswith("jobc: "):
                table.add(f"{node}: {line}")
        return max(table.print(), 0 if trial.is_good else 1)

    def _run_trial(self, place: Place, cluster: Cluster, payload: str) -> Trial:
        purpose = Purpose(payload, f"{payload}-{os.urandom(4).hex()}", suffix=f"-{payload}")
        sender = Sender(cluster, self.job.artifact)
        if not self._sends_code:
            return run_trial(sender, purpose, self._start_timeout_s)
        with temporary_run(place, self) as new:
            copy_user_code(place, self, new)
            pack_code(new.run.path)
            return run_trial(sender, purpose._replace(code=packed_code(new.run.path)), self._start_timeout_s)

    def shell(self, place: Place, named: str, node: int, command: Sequence[str]) -> int:
        """Open it in a pod of the run if that is live, else in a pod of its own, without GPUs."""
        run = place.choose_run(named) if named or place.has_runs() else None
        words = [*JOIN, "shell", *command]
        terminal = ["--stdin", "--tty"] if sys.stdin.isatty() and sys.stdout.isatty() else ["--stdin"]
        record = newest_record(run) if run is not None else None
        if run is None or record is None or self.seen(run).state != LIVE:
            with StoragePods(self.job, self._start_timeout_s) as pods:
                cluster = self._own_cluster()
                return attached(cluster.command("exec", *terminal, pods.pod(cluster), "--container=node", "--", *words))
        pod = next((pod for pod in reversed(running(self.pods(record))) if pod.node == node), None)
        if pod is None:
            raise Failure(f"node {node} of run {run.id} has no running pod", "jobctl status prints the reason")
        return attached(self.cluster(record).command("exec", *terminal, pod.name, "--container=node", "--", *words))

    @property
    def _start_timeout_s(self) -> int:
        seconds = self.job.settings.get("start_timeout_s")
        return seconds if isinstance(seconds, int) else 600

    @property
    def _sends_code(self) -> bool:
        code = self.job.settings.get("code")
        return isinstance(code, dict) and code.get("kind") == "snapshot"


def _shorter_prefix(line: bytes) -> bytes:
    """Return a line of `kubectl logs --prefix` with the node rank as its prefix."""
    return _PREFIX.sub(rb"\1: ", line, 1)


def _why_none_has_started(pods: list[Pod]) -> str:
    """Return what the first pod waits for; "" if a pod has started, or if it is not known."""
    if any(pod.phase != "Pending" for pod in pods):
        return ""
    return next((f"node {pod.node}: {pod.waits}" for pod in pods if pod.waits), "")


def _ended_object(cluster: Cluster, uid: str, may_replace: bool) -> Found:
    """Return the job's object, if there is one. Raises Failure, unless it has ended and may be replaced.

    uid: of the object that the run had before
    """
    found, target = cluster.look(), cluster.target
    if found.uid and not found.has_ended:
        raise live_failure(found, target)
    if found.uid and not may_replace and found.uid != uid:
        hint = "jobctl submit --replace deletes it and its pods' logs; logs on storage are kept"
        owner = f"started by {found.owner or 'someone'}"
        raise Failure(f"{target.kind} {target.object} has ended in {target}, {owner}", hint)
    return found
