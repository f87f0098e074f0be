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
from ....runtime.exit_codes import PEER_LOST, PREEMPTED
from ....runtime.run_folder.run import Run, last_progress, worst_code
from ....runtime.run_folder.run_folder import replace_file
from ....runtime.system.failure import Failure, print_failure
from ....runtime.system.values import read_text, word_or_empty
from .cluster import Cluster, FoundObject, ObjectCondition, UnknownContext, recorded_job_object
from .pods import PodStatus, running_pods

FIRST_FAILURE = "logs/first_failure.txt"
MOST_LINES = 20  # lines shown of a rank's output that has no traceback
_END_OF_LOG = re.compile(r"(?:; the end of|, see the end of) .*logs/[\w.]+'?:?$")
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
            is_there = record.path in self._conditions or self._find_object(record) is not None
            self._pods[record.path] = cluster.pods() if is_there else []
        return self._pods[record.path]

    def _find_object(self, record: Record) -> FoundObject | None:
        """Return the run's object, or None if it is gone. Raises Failure."""
        cluster = self.cluster(record)
        try:
            found = cluster.find_object()
        except UnknownContext:
            self._unknown.add(record.path)
            self._why_gone[record.path] = f"the kubeconfig no longer has a context {cluster.target.context}"
            return None
        return found if found.belongs_to_run(record.run.id, _recorded_uid(record)) else None

    def ask_engine(self, record: Record) -> str:
        found = self._find_object(record)
        if found is None:
            return GONE
        self._conditions[record.path] = found.conditions
        is_code_on_storage = self.job.settings.get("storage") == "shared" and self._condition_exit_code(record) is None
        if found.has_ended and is_code_on_storage and not self.pods(record):
            target = self.cluster(record).target
            self._why_gone[record.path] = f"{target.kind} {target.object} has failed, and its pods were deleted"
            return GONE
        return ENDED if found.has_ended else LIVE

    def delete_object(self, record: Record) -> None:
        """Start deleting the run's object, but not a newer object with the same name."""
        try:
            if found := self._find_object(record):
                self.cluster(record).start_deletion(found.identity)
        except Failure as failure:
            print_failure(failure)

    def job_exit_code_and_reason(self, record: Record) -> tuple[int, str]:
        """Return the exit code from the object's conditions or, if it is not there, the pods' worst one; the reason."""
        code = self._condition_exit_code(record)
        if code is None:
            code = worst_code([pod.exit for pod in self.pods(record) if pod.exit is not None]) or 1
        return code, self._recorded_end_reason(record)

    def _condition_exit_code(self, record: Record) -> int | None:
        conditions = self._conditions.get(record.path, ())
        if any(condition.type in ("Complete", "Completed") for condition in conditions):
            return 0
        if any("DeadlineExceeded" in condition for condition in conditions):
            return PREEMPTED
        match = re.search("exit code ([0-9]{1,18}) matching", "\n".join(map("\t".join, conditions)))
        return int(match.group(1)) if match else None

    def _recorded_end_reason(self, record: Record) -> str:
        lines = read_text(record.run.path / FIRST_FAILURE).split("\n")
        node = lines[0].partition(",")[0]
        ours = [line[6:] for line in lines if line.startswith("jobc: ")]
        if why := next((line for line in ours if re.search("failed first|exit ", line)), ""):
            return f"{node}: {_END_OF_LOG.sub('', why)}"
        named = (re.match(r"(?:\[pod[^]]*\] )?(FAIL +.*|error: .*)", line) for line in lines)
        why = next((match.group(1) for match in named if match), "")
        for pod in self.pods(record):
            if pod.init:
                return f"node {pod.node}: {pod.init}{why and f': {why}'}"
        if why or ours:
            return f"{node}: {why}" if why else ""
        final = (c for c in self._conditions.get(record.path, ()) if c.type in ("Failed", "Complete", "Completed"))
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
        failed = [pod for pod in self.pods(record) if pod.phase == "Failed"]
        if not failed:
            return
        pod = min(failed, key=lambda pod: pod.exit in (PEER_LOST, PREEMPTED))
        log = cluster.run_kubectl("logs", pod.name, "--container=node", "--tail=200")
        text = log.text
        if log.code:
            text += cluster.run_kubectl(
                "logs", pod.name, "--tail=200", "--all-containers", "--prefix", "--ignore-errors"
            ).text
            text += cluster.run_kubectl("get", "pod", pod.name, "--output=jsonpath={.status}").text
        with contextlib.suppress(OSError):
            replace_file(path, f"node {pod.node}, pod {pod.name}:\n{text}".encode())

    def live_state(self, record: Record) -> State:
        target, run = self.cluster(record).target, record.run
        if run.is_stopped:
            return State("stopping", f"stopping, {target.kind} {target.object} in {target}")
        if any(condition.type == "Suspended" for condition in self._conditions.get(record.path, ())):
            text = f"queued: {target.kind} {target.object} in {target} is suspended, by Kueue or by hand"
            return State("queued", text)
        if run.is_mine:
            live_pods = [pod for pod in self.pods(record) if pod.phase != "Failed"]
            if len(live_pods) < target.nodes:
                return State("live", f"live, {len(live_pods)} of {target.nodes} pods exist, in {target}")
            if pending := sum(pod.phase not in ("Running", "Succeeded") for pod in live_pods):
                return State("starting", f"starting, {pending} of {target.nodes} pods are pending, in {target}")
        return State("live", f"live, in {target}")

    def forgotten_job_state(self, record: Record) -> State:
        if record.run.is_stopped:
            return State("stopped", "stopped by jobctl stop; its object was deleted")
        hint = "; its exit code is only in the run's storage: jobctl logs reads it"
        return State("gone", self.forgotten_job_reason(record) + ("" if record.path in self._unknown else hint))

    def forgotten_job_reason(self, record: Record) -> str:
        target = self.cluster(record).target
        if record.path in self._why_gone:
            return self._why_gone[record.path]
        if not _recorded_uid(record):
            return f"{target.kind} {target.object} does not exist: jobctl submit was interrupted"
        return f"{target.kind} {target.object} no longer exists: it was deleted by hand, or after lifecycle.keep"

    def why_not_removable(self, run: Run) -> str:
        record = self.observed_state(run).record
        if record is not None and record.path in self._unknown:
            return self._why_gone[record.path]
        return super().why_not_removable(run)

    def live_run_keep_reason(self, record: Record) -> str:
        target = self.cluster(record).target
        return f"{target.kind} {target.object} is live in {target}"

    def nodes(self, run: Run, state: State) -> Iterator[NodeLine]:
        """Yield a line for each existing pod, with rank 0's last metrics while it is running."""
        reading = self.observed_state(run)
        if reading.record is None:
            return
        cluster, pods = self.cluster(reading.record), self.pods(reading.record)
        head, progress = next((pod for pod in reversed(running_pods(pods)) if pod.node == 0), None), None
        if head is not None:
            file = f"{self.path_on_nodes(run)}/metrics/rank_00.jsonl"
            progress = last_progress(cluster.run_in_pod(head.name, "tail", "-c", "4096", file).text.split("\n"))
        for pod in pods:
            waits, status = pod.init or pod.waits, pod.phase.lower()
            text = f"pod {pod.name} {status}"
            text += f" on {pod.host}" if pod.host else ""
            text += "" if pod.exit is None else f", exit {pod.exit}"
            text += f": {waits.strip()}" if waits else ""
            yield NodeLine(pod.node, text, status, pod.host, progress if pod is head else None)

    def notes(self, run: Run, state: State) -> Iterator[str]:
        reading = self.observed_state(run)
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
                taint = "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"
                yield f"kubectl delete node {pod.host}, or kubectl taint node {pod.host} {taint}"
        if reading.state == LIVE and " pods exist, in " in state.text:
            yield from _last_warning(self.cluster(reading.record))


def _last_traceback(lines: list[str]) -> list[str]:
    """Return the last traceback and the lines after it or, if there is no traceback, the last lines."""
    starts = [i for i, line in enumerate(lines) if line.startswith("Traceback ")]
    return lines[starts[-1] :] if starts else lines[-MOST_LINES:]


def _recorded_uid(record: Record) -> str:
    """Return the uid of the run's object, or "" if jobctl submit was interrupted before it received the uid."""
    return word_or_empty(record.keys.get("uid", ""))


def _last_warning(cluster: Cluster) -> list[str]:
    """Return the newest warning about the object or its Job, such as why it has no pods. Events last one hour."""
    words = ("--field-selector=type=Warning", "--sort-by=.metadata.creationTimestamp", f"--output=jsonpath={_EVENTS}")
    rows = (line.split("|", 2) for line in cluster.run_kubectl("get", "events", *words).text.split("\n"))
    names = (cluster.target.object, f"{cluster.target.object}-node-0")
    return [row[2] for row in rows if len(row) == 3 and row[0] != "Pod" and row[1] in names][-1:]
