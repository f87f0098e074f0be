"""Kubernetes for the scripts of an artifact: asks kubectl about the object and the pods of a run. Packed into jobctl.

RUN/state/job_ATTEMPT records the created object: uid, object, kind, companions, nodes, context, namespace. Another
compile of this job may have created it, so queries about a run use these recorded values. Python 3.8.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ...trainer.rt.engines.engine import Answer, Failure, Job, NodeLine, State
from ...trainer.rt.engines.log_files import LogRequest
from ...trainer.rt.engines.records import (
    ENDED,
    GONE,
    LIVE,
    MARK_ON_NODE,
    Record,
    RecordEngine,
    newest_record,
    write_evidence,
)
from ...trainer.rt.engines.run import Run, last_progress, worst_code
from ...trainer.rt.engines.streams import Conversation, LineMerger, stream
from ...trainer.rt.engines.values import number, read_text, word
from ...trainer.rt.verbs.text import printable

NOT_THERE = 3  # exit code of storage.sh when the storage does not have the file
LOOK_S = 2  # interval between two checks for new pods while logs are followed
HAD_TO_BE_GONE_S = 60  # a pod that is still there this long after its deletion time is reported
_OBJECT = (
    '{.metadata.uid}{"\\n"}{range .status.conditions[?(@.status=="True")]}'
    '{.type}{"\\t"}{.reason}{"\\t"}{.message}{"\\n"}{end}'
)
_DEADLINE = (
    '{range .items[*].status.conditions[?(@.reason=="DeadlineExceeded")]}'
    '{.type}{"\\t"}{.reason}{"\\t"}{.message}{"\\n"}{end}'
)
_NODE = '.status.containerStatuses[?(@.name=="node")].state'
_INIT = ".status.initContainerStatuses[?(@.state.terminated.exitCode!=0)]"
_PODS = (
    "{range .items[*]}{.metadata.labels.batch\\.kubernetes\\.io/job-completion-index}|{.metadata.name}|{.status.phase}|"
    f"{{.spec.nodeName}}|{{{_NODE}.terminated.exitCode}}|"
    f'{{{_NODE}.waiting.reason}}{{.status.conditions[?(@.reason=="Unschedulable")].message}}|'
    f"{{range {_INIT}}}init container {{.name}} exited with {{.state.terminated.exitCode}} {{end}}|"
    '{.metadata.deletionTimestamp}{"\\n"}{end}'
)
_PREFIX = re.compile(rb"^\[pod/[^]]*-([0-9]+)-[^-]*/node\] ")
_EVENTS = '{range .items[*]}{.involvedObject.kind}|{.involvedObject.name}|{.reason}: {.message}{"\\n"}{end}'


class Target(NamedTuple):
    """The Kubernetes object of a run, with its context and namespace."""

    object: str
    kind: str
    nodes: int
    context: str
    namespace: str

    def __str__(self) -> str:
        return f"namespace {self.namespace}" + (f" of context {self.context}" if self.context else "")


class Pod(NamedTuple):
    """One pod of a run. exit, waits: exit code and waiting reason of the ranks' container; init: init containers that
    failed; gone_at: its deletion time, when it must have ended.
    """

    node: int
    name: str
    phase: str
    host: str
    exit: int | None
    waits: str
    init: str
    gone_at: str


class Condition(NamedTuple):
    type: str
    reason: str
    message: str


class KubernetesEngine(RecordEngine):
    """Queries the object of a run once, and its pods when they are first needed."""

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self._conditions: dict[Path, tuple[Condition, ...]] = {}  # keyed by the record's file
        self._pods: dict[Path, list[Pod]] = {}
        self._storage: Conversation | None = None

    def conditions(self, record: Record) -> tuple[Condition, ...]:
        """Return the conditions of the run's object whose status is True."""
        return self._conditions.get(record.path, ())

    def ask_engine(self, record: Record) -> str:
        target = self._target(record)
        uid, conditions = self._object(target)
        if uid != word(record.keys.get("uid", "")):
            return GONE
        self._conditions[record.path] = conditions
        return ENDED if _has_ended(conditions) else LIVE

    def job_end(self, record: Record) -> tuple[int, str]:
        return self._code(record), self._reason(record)

    def _code(self, record: Record) -> int:
        """Return the job's exit code from the object's conditions, or else the worst exit code of its pods."""
        if any(condition.type in ("Complete", "Completed") for condition in self.conditions(record)):
            return 0
        if any("DeadlineExceeded" in condition for condition in self.conditions(record)):
            return 75
        text = "\n".join(map("\t".join, self.conditions(record)))
        match = re.search("exit code ([0-9]{1,18}) matching", text)
        codes = [int(match.group(1))] if match else [pod.exit for pod in self.pods(record) if pod.exit is not None]
        return worst_code(codes) or 1

    def _reason(self, record: Record) -> str:
        lines = read_text(record.run.path / "logs/first_failure.txt").split("\n")
        ours = [line[6:] for line in lines if line.startswith("jobc: ")]
        if ours:
            return next((line for line in ours if re.search("failed first|exit ", line)), "")
        for pod in self.pods(record):
            if pod.phase == "Failed" and pod.exit is None and pod.init:
                # skip kubectl's own messages about containers that have not started, which come first or last
                named = (re.match(r"\[pod[^]]*\] (FAIL +.*|error: .*)", line) for line in lines)
                why = next((f": {match.group(1)}" for match in named if match), "")
                return f"node {pod.node}: {pod.init}{why}"
        final = (c for c in self.conditions(record) if c.type in ("Failed", "Complete", "Completed"))
        return " ".join(next(final, ()))

    def keep_evidence(self, record: Record) -> None:
        """Save the end of the log of the first pod that failed, or of its init containers if no rank has started.

        A pod that exited because of another one (69, 75) comes last. Kubernetes deletes the pods that were running.
        """
        path, target = record.run.path / "logs/first_failure.txt", self._target(record)
        if read_text(path):
            return
        failed = sorted(
            (pod for pod in self.pods(record) if pod.phase == "Failed"), key=lambda pod: pod.exit in (69, 75)
        )
        if not failed:
            return
        name = failed[0].name
        log = self.k(target, "logs", name, "--tail=200")
        text = log.text
        if log.code:
            text += self.k(target, "logs", name, "--tail=200", "--all-containers", "--prefix", "--ignore-errors").text
            text += self.k(target, "get", "pod", name, "--output=jsonpath={.status}").text
        with contextlib.suppress(OSError):
            write_evidence(path, f"node {failed[0].node}, pod {name}:\n{text}".encode())

    def live_state(self, record: Record) -> State:
        target, run = self._target(record), record.run
        if run.is_stopped:
            return State("stopping", f"stopping, {target.kind} {target.object} in {target}")
        if any(condition.type == "Suspended" for condition in self.conditions(record)):
            text = f"queued: {target.kind} {target.object} in {target} is suspended, by Kueue or by hand"
            return State("queued", text)
        if not run.is_mine:
            return State("live", f"live, in {target}")
        live_pods = [pod for pod in self.pods(record) if pod.phase != "Failed"]
        pending = sum(pod.phase not in ("Running", "Succeeded") for pod in live_pods)
        if len(live_pods) < target.nodes:
            return State("live", f"live, {len(live_pods)} of {target.nodes} pods are there, in {target}")
        if pending:
            return State("starting", f"starting, {pending} of {target.nodes} pods are pending, in {target}")
        return State("live", f"live, in {target}")

    def gone_state(self, record: Record) -> State:
        if record.run.is_stopped:
            return State("stopped", "stopped by stop.sh; its object was deleted")
        text = f"{self.gone_reason(record)}; its exit code is only in the run's storage: logs.sh reads it"
        return State("gone", text)

    def gone_reason(self, record: Record) -> str:
        target = self._target(record)
        return f"{target.kind} {target.object} is gone, deleted by hand or after lifecycle.keep"

    def live_reason(self, record: Record) -> str:
        target = self._target(record)
        return f"{target.kind} {target.object} is live in {target}"

    def remove_stored(self, run: Run) -> bool:
        """Remove the run from the pods' storage, through a pod that storage.sh creates once in each cluster."""
        if newest_record(run) is not None and self.job.settings.get("storage") != "node":
            if self._storage is None:
                self._storage = Conversation(["bash", "-p", str(self.job.artifact / "storage.sh"), "--remove"])
            if self._storage.ask(os.fsencode(run.path)) != b"removed":
                return False
        return super().remove_stored(run)

    def close(self) -> None:
        if self._storage is not None:
            self._storage.end()  # it removes its pods

    def resume_command(self, run: Run, state: State) -> str:
        """Return the resume command, or "" if runs are deleted with their pods."""
        return "" if self.job.settings.get("storage") == "node" else super().resume_command(run, state)

    def nodes(self, run: Run, state: State) -> Iterator[NodeLine]:
        """Yield the pods that still exist, with the last metrics of rank 0 while it runs."""
        reading = self.seen(run)
        if reading.record is None:
            return
        target, pods = self._target(reading.record), self.pods(reading.record)
        first = [pod for pod in pods if pod.node == 0 and pod.phase == "Running"]
        progress = None
        if first:
            file = f"{self.storage_of(run)}/metrics/rank_00.jsonl"
            metrics = self.k(target, "exec", first[-1].name, "--", "tail", "-c", "4096", file)
            progress = last_progress(metrics.text.split("\n"))
        for pod in pods:
            waits = pod.init if pod.phase == "Failed" and pod.exit is None and pod.init else pod.waits
            text = f"pod {pod.name} {pod.phase.lower()}"
            text += f" on {pod.host}" if pod.host else ""
            text += "" if pod.exit is None else f", exit {pod.exit}"
            text += f": {waits.strip()}" if waits else ""
            status = pod.phase.lower()
            yield NodeLine(pod.node, text, status, pod.host, progress if first and pod is first[-1] else None)

    def notes(self, run: Run, state: State) -> Iterator[str]:
        reading = self.seen(run)
        if reading.record is None:
            return
        for pod in self.pods(reading.record):
            # Source Kubernetes 1.37, "Non-graceful node shutdown handling" and "Pod replacement policy"
            late = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - HAD_TO_BE_GONE_S))
            if pod.gone_at and pod.phase in ("Running", "Pending") and pod.gone_at < late:
                yield (
                    f"pod {pod.name} was to end by {pod.gone_at}, but node {pod.host} does not confirm it;"
                    " no other pod replaces it until then. If that node is powered off:"
                )
                yield (
                    f"kubectl delete node {pod.host}, or kubectl taint node {pod.host}"
                    " node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"
                )
        if reading.state == LIVE and " pods are there, in " in state.text:
            warning = self._warning(self._target(reading.record))
            if warning:
                yield warning

    def _warning(self, target: Target) -> str:
        """Return the newest warning of the object or its Job, such as why it has no pods. Events last one hour."""
        answer = self.k(
            target, "get", "events", "--field-selector=type=Warning", "--sort-by=.metadata.creationTimestamp",
            f"--output=jsonpath={_EVENTS}",
        )  # fmt: skip
        warning = ""
        for line in answer.text.split("\n"):
            kind, _, name_and_text = line.partition("|")
            name, _, text = name_and_text.partition("|")
            if kind != "Pod" and name in (target.object, f"{target.object}-node-0"):
                warning = text
        return warning

    # ---- logs

    def print_logs(self, run: Run, request: LogRequest) -> int:
        """Print the log of a node or a rank, or with follow and no rank the output of the pods."""
        record = newest_record(run)
        if record is None:
            raise Failure(f"run {run.id} was not sent to a cluster", "submit.sh sends one")
        if request.follow and request.rank is None:
            self._follow_pods(record, request)
            return 0
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
                hint = "logs.sh --node N reads what an ended pod printed, as long as Kubernetes keeps the pod"
                raise Failure(f"no {file} of run {run.id}: its pod does not exist any more", hint)
            raise Failure(f"no {file} of run {run.id} on the storage", "status.sh shows whether the run has started")
        return code

    def _follow_pods(self, record: Record, request: LogRequest) -> None:
        """Print the output of the pods until the run has ended, including new pods of a restarted Job."""
        target, run, followed = self._target(record), record.run, LineMerger()
        tail = -1 if request.tail is None else request.tail
        names: set[str] = set()
        with followed:
            while True:
                engine = KubernetesEngine(self.job)
                is_live = engine.seen(Run(run.path)).state == LIVE
                for pod in engine.pods(record):
                    is_wanted = request.node in (None, pod.node)
                    if is_wanted and pod.phase != "Pending" and pod.name not in names:
                        names.add(pod.name)
                        words = self._kubectl(target, "logs", "--follow", "--prefix", f"--tail={tail}", pod.name)
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
        target, storage, pods = self._target(record), self.job.settings.get("storage"), self.pods(record)
        running = [pod for pod in pods if pod.phase == "Running" and (storage == "shared" or pod.node == node)]
        lines = "+1" if request.tail is None else str(request.tail)
        if running:
            pod = running[0 if storage == "shared" else -1]
            command = ["tail", "-n", lines, *(["-F", "--pid=1"] if request.follow else [])]
            path = f"{self.storage_of(record.run, node)}/{file}"
            words = self._kubectl(target, "exec", pod.name, "--", *command, path)
            return NOT_THERE if stream(words, errors="dropped") else 0
        if storage != "node":
            script = str(self.job.artifact / "storage.sh")
            return stream(["bash", "-p", script, str(record.run.path), file], tail=request.tail)
        ended = [pod for pod in pods if pod.node == node]
        if not ended or not file.startswith("logs/node_"):
            return NOT_THERE
        tail = -1 if request.tail is None else request.tail
        words = self._kubectl(target, "logs", ended[-1].name, "--container=node", f"--tail={tail}")
        return NOT_THERE if stream(words, errors="dropped") else 0

    # ---- stopping

    def mark_stopped(self, run: Run) -> None:
        record = newest_record(run)
        if record is not None:
            self._mark_in_pods(record)
        super().mark_stopped(run)

    def _mark_in_pods(self, record: Record) -> None:
        """Write the stop mark where the pods look: in any of them, or in each if it has a folder of its own."""
        target, why = self._target(record), ""
        for pod in _running(self.pods(record)):
            folder = self.storage_of(record.run, pod.node)
            answer = self.k(target, "exec", pod.name, "--", "bash", "-c", MARK_ON_NODE, "-", folder)
            why = answer.errors.strip() if answer.code else ""
            if not why and self.job.settings.get("storage") != "node":
                break
        if why and _running(KubernetesEngine(self.job).pods(record)):
            raise Failure(f"cannot write the stop mark on the storage of the pods: {why}")

    def signal(self, run: Run, name: str) -> None:
        """Signal PID 1 of each pod. If no pod has started yet, and for KILL, delete the object."""
        record = newest_record(run)
        if record is None:
            return
        engine, target = KubernetesEngine(self.job), self._target(record)
        pods = engine.pods(record)
        if name != "KILL":
            for pod in _running(pods):
                self.k(target, "exec", pod.name, "--", "bash", "-c", f"kill -{name} 1")
        if name == "KILL" or not any(pod.phase in ("Running", "Succeeded") for pod in pods):
            if engine.seen(run).state != LIVE:
                return  # another object may have its name by now
            engine.keep_evidence(record)
            answer = self.k(target, "delete", target.kind, target.object, "--ignore-not-found", "--wait=false")
            if answer.code:
                print(printable(answer.errors.strip()), file=sys.stderr)

    # ---- kubectl

    def k(self, target: Target, *words: str) -> Answer:
        """Run kubectl in the context and namespace of the run."""
        return self.ask(self._kubectl(target, *words))

    def _kubectl(self, target: Target, *words: str) -> list[str]:
        context = [f"--context={target.context}"] if target.context else []
        return ["kubectl", *context, f"--namespace={target.namespace}", *words]

    def _target(self, record: Record) -> Target:
        keys = record.keys
        name, kind, companions = (word(keys.get(key, "")) for key in ("object", "kind", "companions"))
        settings = self.job.settings
        if not name or kind not in settings.get("kinds", ()) or companions not in settings.get("companions", ()):
            raise Failure(
                f"{record.path} does not name an object, its kind and its companions", "submit.sh writes these keys"
            )
        nodes = number(keys.get("nodes", "")) or 1
        return Target(name, kind, nodes, keys.get("context", ""), keys.get("namespace", ""))

    def _object(self, target: Target) -> tuple[str, tuple[Condition, ...]]:
        """Return (uid, true conditions) of the object; ("", ()) if it does not exist."""
        answer = self.k(target, "get", target.kind, target.object, "--ignore-not-found", f"--output=jsonpath={_OBJECT}")
        if answer.code:
            why = answer.errors.strip().rpartition(": ")[2]
            hint = "check the connection with kubectl cluster-info"
            raise Failure(f"cannot reach the cluster of {target}: {why}", hint)
        uid, _, text = answer.text.partition("\n")
        conditions = _conditions(text)
        if target.kind.startswith("jobset.") and _has_ended(conditions):
            # the JobSet's own conditions do not mention the deadline
            selector = f"--selector=jobset.sigs.k8s.io/jobset-name={target.object}"
            deadline = self.k(target, "get", "jobs", selector, f"--output=jsonpath={_DEADLINE}")
            conditions = (*_conditions(deadline.text), *conditions)
        return uid, conditions

    def pods(self, record: Record) -> list[Pod]:
        """Return the pods of the run, newest last."""
        if record.path not in self._pods:
            target = self._target(record)
            answer = self.k(
                target, "get", "pods", f"--selector=jobc/job={target.object}",
                "--sort-by=.metadata.creationTimestamp", f"--output=jsonpath={_PODS}",
            )  # fmt: skip
            self._pods[record.path] = [pod for line in answer.text.split("\n") for pod in _pod(line)]
        return self._pods[record.path]


def _running(pods: list[Pod]) -> list[Pod]:
    return [pod for pod in pods if pod.phase == "Running"]


def _shorter_prefix(line: bytes) -> bytes:
    """Return a line of `kubectl logs --prefix` with the node rank as its prefix."""
    return _PREFIX.sub(rb"\1: ", line, 1)


def _pod(line: str) -> Iterator[Pod]:
    fields = line.split("|")
    node = number(fields[0])
    if len(fields) >= 8 and node is not None:
        name, phase, host, code = fields[1:5]
        waits = "|".join(fields[5:-2])  # a message may hold a bar
        yield Pod(node, name, phase, host, number(code), waits, fields[-2].strip(), fields[-1])


def _conditions(text: str) -> tuple[Condition, ...]:
    rows = (line.split("\t", 2) for line in text.split("\n"))
    return tuple(Condition(*row) for row in rows if len(row) == 3)


def _has_ended(conditions: tuple[Condition, ...]) -> bool:
    return any(condition.type in ("Complete", "Completed", "Failed") for condition in conditions)


ENGINE = KubernetesEngine
