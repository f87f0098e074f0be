"""Determine a run's state on Kubernetes from its object and its pods. Packed into jobctl; Python 3.8.

RUN/state/job_ATTEMPT records the created object: uid, object, kind, companions, nodes, context, namespace. The object
may have been created by another compile of this job, so queries about a run use these recorded values.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterator
from pathlib import Path

from ....runtime.engines.engine import Job, NodeLine, State
from ....runtime.engines.record_engine import ENDED, GONE, LIVE, Record, RecordEngine
from ....runtime.run_folder.run import Run, last_progress, worst_code
from ....runtime.run_folder.run_folder import replace_file
from ....runtime.system.failure import Failure, print_failure
from ....runtime.system.values import read_text, word_or_empty
from .cluster import Cluster, ObjectCondition, UnknownContext, recorded_job_object
from .pods import PodStatus

FIRST_FAILURE = "logs/first_failure.txt"
MOST_LINES = 20  # lines shown of a rank's output that has no traceback
_END_OF_LOG = re.compile(r"(?:; the end of|, see the end of) logs/[\w.]+:?$")
HAD_TO_BE_GONE_S = 60  # a pod that still exists this long after its deletion time is reported
_EVENTS = '{range .items[*]}{.involvedObject.kind}|{.involvedObject.name}|{.reason}: {.message}{"\\n"}{end}'


class ObservingEngine(RecordEngine):
    """Queries a run's object once, and its pods when they are first needed."""

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self._conditions: dict[Path, tuple[ObjectCondition, ...]] = {}  # keyed by the record's file
        self._pods: dict[Path, list[PodStatus]] = {}
        self._why_gone: dict[Path, str] = {}
        self._unknown: set[Path] = set()  # records whose context the kubeconfig does not contain

    def cluster(self, record: Record) -> Cluster:
        """Return the Cluster recorded for the run. Raises Failure."""
        target = recorded_job_object(record.keys, self.job.settings)
        if target is None:
            raise Failure(f"{record.path} has no valid object, kind and companions", "jobctl submit writes these keys")
        return Cluster(self.ask, target)

    def pods(self, record: Record) -> list[PodStatus]:
        """Return the run's pods, newest last, or [] if its object is gone, even if a newer object has the same name."""
        if record.path not in self._pods:
            cluster = self.cluster(record)
            is_there = record.path in self._conditions or self._is_there(record)
            self._pods[record.path] = cluster.pods() if is_there else []
        return self._pods[record.path]

    def _is_there(self, record: Record) -> bool:
        try:
            return self.cluster(record).look().belongs_to_run(record.run.id, _uid(record))
        except UnknownContext:
            return False

    def conditions(self, record: Record) -> tuple[ObjectCondition, ...]:
        """Return those conditions of the run's object whose status is True."""
        return self._conditions.get(record.path, ())

    def ask_engine(self, record: Record) -> str:
        target = self.cluster(record).target
        try:
            found = self.cluster(record).look()
        except UnknownContext:
            self._unknown.add(record.path)
            self._why_gone[record.path] = f"the kubeconfig no longer has a context {target.context}"
            return GONE
        if not found.belongs_to_run(record.run.id, _uid(record)):
            return GONE
        self._conditions[record.path] = found.conditions
        if found.has_ended and self._are_pods_gone(record):
            self._why_gone[record.path] = f"{target.kind} {target.object} has failed, and its pods were deleted"
            return GONE
        return ENDED if found.has_ended else LIVE

    def _are_pods_gone(self, record: Record) -> bool:
        """Return whether a failed job's exit code is only on the pods' storage."""
        is_shared = self.job.settings.get("storage") == "shared"
        return is_shared and self._condition_exit_code(record) is None and not self.pods(record)

    def delete_object(self, record: Record) -> None:
        """Start deleting the run's object, but not a newer object with the same name."""
        cluster = self.cluster(record)
        try:
            found = cluster.look()
            if found.belongs_to_run(record.run.id, _uid(record)):
                cluster.remove(found.identity)
        except Failure as failure:
            print_failure(failure)

    def job_end(self, record: Record) -> tuple[int, str]:
        return self._code(record), self._reason(record)

    def _code(self, record: Record) -> int:
        """Return the job's exit code from the object's conditions or, if it is not there, the pods' worst exit code."""
        known = self._condition_exit_code(record)
        if known is not None:
            return known
        return worst_code([pod.exit for pod in self.pods(record) if pod.exit is not None]) or 1

    def _condition_exit_code(self, record: Record) -> int | None:
        """Return the exit code in the object's conditions, or None if there is none."""
        if any(condition.type in ("Complete", "Completed") for condition in self.conditions(record)):
            return 0
        if any("DeadlineExceeded" in condition for condition in self.conditions(record)):
            return 75
        text = "\n".join(map("\t".join, self.conditions(record)))
        match = re.search("exit code ([0-9]{1,18}) matching", text)
        return int(match.group(1)) if match else None

    def _reason(self, record: Record) -> str:
        lines = read_text(record.run.path / FIRST_FAILURE).split("\n")
        node = lines[0].partition(",")[0]
        ours = [line[6:] for line in lines if line.startswith("jobc: ")]
        if why := next((line for line in ours if re.search("failed first|exit ", line)), ""):
            return f"{node}: {_END_OF_LOG.sub('', why)}"
        named = (re.match(r"(?:\[pod[^]]*\] )?(FAIL +.*|error: .*)", line) for line in lines)
        why = next((match.group(1) for match in named if match), "")
        for pod in self.pods(record):
            if pod.phase == "Failed" and pod.exit is None and pod.init:
                return f"node {pod.node}: {pod.init}{why and f': {why}'}"
        if why or ours:
            return f"{node}: {why}" if why else ""
        final = (c for c in self.conditions(record) if c.type in ("Failed", "Complete", "Completed"))
        return " ".join(next(final, ()))

    def failure_lines(self, run: Run) -> list[str]:
        """Return the end of the log of the rank that failed first, including the traceback."""
        lines = read_text(run.path / FIRST_FAILURE).split("\n")
        at = next((i for i, line in enumerate(lines) if line.startswith("jobc: ") and _END_OF_LOG.search(line)), None)
        if at is None:
            return []
        if ", see the end of " in lines[at]:  # the pod has already printed it
            own = _last_traceback(lines[1:at])
        else:
            end = next((i for i in range(at + 1, len(lines)) if lines[i].startswith("jobc: ")), len(lines))
            own = lines[at + 1 : end]
        return [f"| {line}" for line in own if line]

    def save_job_output(self, record: Record) -> None:
        """Save the last log lines of the pod that failed first, or of its init containers if no rank has started.

        A pod that exited because of another pod (69, 75) is used only if no other pod failed. Pods that were still
        running cannot be used, because Kubernetes deletes them.
        """
        path, cluster = record.run.path / FIRST_FAILURE, self.cluster(record)
        if read_text(path):
            return
        failed = sorted(
            (pod for pod in self.pods(record) if pod.phase == "Failed"), key=lambda pod: pod.exit in (69, 75)
        )
        if not failed:
            return
        name = failed[0].name
        log = cluster.k("logs", name, "--container=node", "--tail=200")
        text = log.text
        if log.code:
            text += cluster.k("logs", name, "--tail=200", "--all-containers", "--prefix", "--ignore-errors").text
            text += cluster.k("get", "pod", name, "--output=jsonpath={.status}").text
        with contextlib.suppress(OSError):
            replace_file(path, f"node {failed[0].node}, pod {name}:\n{text}".encode())

    def live_state(self, record: Record) -> State:
        target, run = self.cluster(record).target, record.run
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
            return State("live", f"live, {len(live_pods)} of {target.nodes} pods exist, in {target}")
        if pending:
            return State("starting", f"starting, {pending} of {target.nodes} pods are pending, in {target}")
        return State("live", f"live, in {target}")

    def forgotten_job_state(self, record: Record) -> State:
        if record.run.is_stopped:
            return State("stopped", "stopped by jobctl stop; its object was deleted")
        if record.path in self._unknown:
            return State("gone", self.forgotten_job_reason(record))
        text = f"{self.forgotten_job_reason(record)}; its exit code is only in the run's storage: jobctl logs reads it"
        return State("gone", text)

    def forgotten_job_reason(self, record: Record) -> str:
        target = self.cluster(record).target
        if record.path in self._why_gone:
            return self._why_gone[record.path]
        if not _uid(record):
            return f"{target.kind} {target.object} does not exist: jobctl submit was interrupted"
        return f"{target.kind} {target.object} no longer exists: it was deleted by hand, or after lifecycle.keep"

    def why_not_removable(self, run: Run) -> str:
        record = self.seen(run).record
        if record is not None and record.path in self._unknown:
            return self._why_gone[record.path]
        return super().why_not_removable(run)

    def live_run_keep_reason(self, record: Record) -> str:
        target = self.cluster(record).target
        return f"{target.kind} {target.object} is live in {target}"

    def nodes(self, run: Run, state: State) -> Iterator[NodeLine]:
        """Yield a line for each existing pod, with rank 0's last metrics while it is running."""
        reading = self.seen(run)
        if reading.record is None:
            return
        cluster, pods = self.cluster(reading.record), self.pods(reading.record)
        first = [pod for pod in pods if pod.node == 0 and pod.phase == "Running"]
        progress = None
        if first:
            file = f"{self.path_on_nodes(run)}/metrics/rank_00.jsonl"
            metrics = cluster.k("exec", first[-1].name, "--container=node", "--", "tail", "-c", "4096", file)
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
        if reading.code not in (0, None):
            yield from self.failure_lines(run)
        for pod in self.pods(reading.record):
            # Source: Kubernetes 1.37, "Non-graceful node shutdown handling" and "Pod replacement policy"
            late = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - HAD_TO_BE_GONE_S))
            if pod.gone_at and pod.phase in ("Running", "Pending") and pod.gone_at < late:
                yield (
                    f"pod {pod.name} should have ended by {pod.gone_at}, but node {pod.host} has not confirmed this, "
                    f"so the pod cannot be replaced. If that node is powered off:"
                )
                yield (
                    f"kubectl delete node {pod.host}, or kubectl taint node {pod.host}"
                    " node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"
                )
        if reading.state == LIVE and " pods exist, in " in state.text:
            warning = _warning(self.cluster(reading.record))
            if warning:
                yield warning


def _last_traceback(lines: list[str]) -> list[str]:
    """Return the last traceback and the lines after it or, if there is no traceback, the last lines."""
    starts = [i for i, line in enumerate(lines) if line.startswith("Traceback ")]
    return lines[starts[-1] :] if starts else lines[-MOST_LINES:]


def _uid(record: Record) -> str:
    """Return the uid of the run's object, or "" if jobctl submit was interrupted before it received the uid."""
    return word_or_empty(record.keys.get("uid", ""))


def _warning(cluster: Cluster) -> str:
    """Return the newest warning about the object or its Job, such as why it has no pods. Events last one hour."""
    answer = cluster.k(
        "get", "events", "--field-selector=type=Warning", "--sort-by=.metadata.creationTimestamp",
        f"--output=jsonpath={_EVENTS}",
    )  # fmt: skip
    warning = ""
    for line in answer.text.split("\n"):
        kind, _, name_and_text = line.partition("|")
        name, _, text = name_and_text.partition("|")
        if kind != "Pod" and name in (cluster.target.object, f"{cluster.target.object}-node-0"):
            warning = text
    return warning
