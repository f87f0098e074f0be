"""Read run storage and the logs of the runs' pods. Packed into jobctl; Python 3.8."""

from __future__ import annotations

import contextlib
import re
import sys
import time
from collections.abc import Sequence

from ....runtime.engines.engine import Job
from ....runtime.engines.log_files import LogRequest
from ....runtime.engines.record_engine import GONE, LIVE, Record, newest_record
from ....runtime.run_folder.run import Run
from ....runtime.system.failure import Failure, print_failure
from ....runtime.system.streams import print_client_output
from ....runtime.system.text import one_line, printable
from ....runtime.system.values import number_or_none
from .cluster import DELETE_S, Cluster, JobObject, resolve_namespace
from .line_merger import LineMerger
from .observing import ObservingEngine
from .pods import PodStatus
from .storage_pod import StoragePods

JOIN = ("python3", "-I", "-S", "/jobc/files/start.py")  # runs in a pod and execs `jobctl join`
NEWS_S = 60  # time limit for starting the pod through which `jobctl status` reads how a run ended
LOOK_S = 2  # interval between checks for new pods while following logs
_CODES = (  # run by bash in a pod; $1: run folder
    'cd -- "$1/exit/$(ls -- "$1/artifact" | sort -n | tail -n 1)" && grep -hxE "[0-9]{1,3}" -- node_*'
)
_PREFIX = re.compile(rb"^\[pod/[^]]*-([0-9]+)-[^-]*/node\] ")


class StorageReadingEngine(ObservingEngine):
    """Reads a run in its pods or, if none of them is running, through an extra pod."""

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self._storage = StoragePods(job, self._start_timeout_s)

    @property
    def _start_timeout_s(self) -> int:
        seconds = self.job.settings.get("start_timeout_s")
        return seconds if isinstance(seconds, int) else 600

    def _cluster_of_artifact(self, record: Record | None = None) -> Cluster:
        """Return the Cluster of the objects that this artifact creates, for an existing run or for a new one.

        Raises Failure.
        """
        if record is None:
            context, namespace = resolve_namespace(self.ask, self.job.settings)
        else:
            context, namespace = self.cluster(record).target[-2:]
        keys = {key: self.job.settings["creates"][key] for key in ("object", "kind", "companions")}
        return Cluster(self.ask, JobObject(**keys, nodes=self.job.nodes, context=context, namespace=namespace))

    # ---- run storage

    def remove_outside_run_folder(self, run: Run) -> bool:
        record = newest_record(run)
        if record is not None and self.job.settings.get("storage") != "node":
            words = self._bucket_command(run, "remove") or ["rm", "-rf", "--", self.path_on_nodes(run)]
            try:
                command = self._storage.command_in_pod(self._cluster_of_artifact(record), *words)
            except Failure as failure:
                print_failure(failure)
                return False
            answer = self.ask(command, timeout_s=DELETE_S)
            print(printable(answer.text + answer.errors), end="", file=sys.stderr)
            if answer.code:
                return False
        return super().remove_outside_run_folder(run)

    def close(self) -> None:
        self._storage.close()

    def fetch(self, what: str, runs: Sequence[Run]) -> None:
        """With `news`, read how a run ended if its object was deleted before its end was recorded.

        The exit codes are read through an extra pod, if that pod starts in time. They are used only if every node of
        the last attempt has recorded one.
        """
        super().fetch(what, runs)
        for run in runs if what == "news" and self.job.settings.get("storage") == "shared" else ():
            reading = self.observed_state(run)
            if reading.record is not None and reading.state == GONE and not run.is_stopped:
                self._record_end_from_storage(run, reading.record)

    def _record_end_from_storage(self, run: Run, record: Record) -> None:
        with contextlib.suppress(Failure), StoragePods(self.job, NEWS_S) as pods:
            words = ("bash", "-c", _CODES, "-", self.path_on_nodes(run))
            answer = self.ask(pods.command_in_pod(self._cluster_of_artifact(record), *words))
            codes = [code for line in answer.text.split() for code in [number_or_none(line)] if code is not None]
            if answer.code == 0 and len(codes) == self.cluster(record).target.nodes:
                self.record_end_from_node_codes(run, codes)

    def _bucket_command(self, run: Run, *words: str) -> list[str]:
        """Return the command that accesses the bucket from a pod, or [] if there is no bucket.

        A pod is needed because this machine may have no access to the bucket.
        """
        if self.job.settings.get("storage") != "object":
            return []
        return ["env", f"JOBC_RUN_ID={run.id}", *JOIN, "bucket", *words]

    # ---- logs

    def print_logs(self, run: Run, request: LogRequest) -> int:
        """Print the log of a node or rank or, with `follow` and no rank, the pods' output."""
        record = newest_record(run)
        if record is None:
            raise Failure(f"run {run.id} was never submitted to a cluster", "start a run with jobctl submit")
        if request.follow and request.rank is None:
            self._follow_pods(record, request)
            return 0
        if self.observed_state(run).state == LIVE and (why := _pending_reason(self.pods(record))):
            raise Failure(f"run {run.id} has not started: {why}", "jobctl status prints what each pod is waiting for")
        procs = self.job.settings.get("procs")
        node = request.node or 0 if request.rank is None else request.rank // (procs if isinstance(procs, int) else 1)
        file = f"logs/{request.name or 'node_00.log'}"
        if request.follow and self.observed_state(run).state == LIVE:
            self._print_file(record, file, node, request)  # fails when the pod through which it reads ends
            print(self.state_now(run).text)
            return 0
        if self._print_file(record, file, node, request._replace(follow=False)):
            return 0
        if self.job.settings.get("storage") == "node":
            hint = "jobctl logs --node N reads what an ended pod printed, as long as Kubernetes keeps the pod"
            raise Failure(f"no {file} of run {run.id}: its pod no longer exists", hint)
        hint = "jobctl status reports whether the run has started"
        raise Failure(f"run {run.id} has no {file} on the storage", hint)

    def _follow_pods(self, record: Record, request: LogRequest) -> None:
        """Print the pods' output until the run has ended, including new pods after a restart."""
        cluster, run, tail = self.cluster(record), record.run, -1 if request.tail is None else request.tail
        names: set[str] = set()
        said = ""
        with LineMerger() as followed:
            while True:
                engine = type(self)(self.job)
                is_live = engine.observed_state(Run(run.path)).state == LIVE
                why = _pending_reason(engine.pods(record)) if is_live else ""
                if why not in ("", said):
                    said = why
                    print(f"waiting: {one_line(why)}", file=sys.stderr, flush=True)
                for pod in engine.pods(record):
                    is_wanted = request.node in (None, pod.node)
                    if is_wanted and pod.phase != "Pending" and pod.name not in names:
                        names.add(pod.name)
                        words = ("logs", "--follow", "--prefix", f"--tail={tail}", "--container=node", pod.name)
                        followed.start_client(cluster.kubectl_command(*words), _shorten_prefix)
                if not is_live:
                    break
                time.sleep(LOOK_S)
            followed.wait_for_clients()
        print(self.state_now(run).text)

    def _print_file(self, record: Record, file: str, node: int, request: LogRequest) -> bool:
        """Print a file of the run, and return whether it exists.

        The file is read from a running pod (with `follow`, until the run ends) or, if there is none, from the storage
        through a new pod. If runs are deleted with their pods, print the pod's log instead.
        """
        cluster, storage, pods = self.cluster(record), self.job.settings.get("storage"), self.pods(record)
        running = [pod for pod in pods if pod.phase == "Running" and (storage == "shared" or pod.node == node)]
        lines = "+1" if request.tail is None else str(request.tail)
        if running:
            pod = running[0 if storage == "shared" else -1]
            command = ["tail", "-n", lines, *(["-F", "--pid=1"] if request.follow else [])]
            path = f"{self.path_on_nodes(record.run, node)}/{file}"
            is_printed = print_client_output(cluster.exec_command(pod.name, *command, path), errors="dropped") == 0
            if not is_printed:
                _require_access(cluster, pod.name, path)
            return is_printed
        if storage != "node":
            words = self._bucket_command(record.run, "cat", file)
            errors = "kept" if words else "dropped"
            with StoragePods(self.job, self._start_timeout_s) as made:
                path, own = f"{self.path_on_nodes(record.run)}/{file}", self._cluster_of_artifact(record)
                command = made.command_in_pod(own, *(words or ["cat", path]))
                is_printed = print_client_output(command, tail=request.tail, errors=errors) == 0
                if not is_printed and not words:
                    _require_access(own, made.running_pod(own), path)
                return is_printed
        ended = [pod for pod in pods if pod.node == node]
        if not ended or not file.startswith("logs/node_"):
            return False
        tail = -1 if request.tail is None else request.tail
        words = cluster.kubectl_command("logs", ended[-1].name, "--container=node", f"--tail={tail}")
        return print_client_output(words, errors="dropped") == 0


def _require_access(cluster: Cluster, pod: str, path: str) -> None:
    """Raise Failure if a file could not be printed because the server refuses access to the pod."""
    answer = cluster.run_in_pod(pod, "test", "-f", path)
    if "forbidden" in answer.errors.lower():
        raise Failure(f"cannot read the storage through pod {pod}: {one_line(answer.errors.strip())}")


def _shorten_prefix(line: bytes) -> bytes:
    """Return a line of `kubectl logs --prefix` with the node rank as its prefix."""
    return _PREFIX.sub(rb"\1: ", line, 1)


def _pending_reason(pods: list[PodStatus]) -> str:
    """Return what the first pod is waiting for, or "" if a pod has started, or if the reason is unknown."""
    if any(pod.phase != "Pending" for pod in pods):
        return ""
    return next((f"node {pod.node}: {pod.waits}" for pod in pods if pod.waits), "")
