"""Find and delete a job's object and pods in a Kubernetes cluster, using kubectl. Packed into jobctl; Python 3.8.

In:  a JobObject (object, context and namespace), from a run's record or from an artifact's settings.
Out: the object's uid, owner, conditions and pods. Raises Failure if the cluster does not respond.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ....runtime.engines.engine import ASK_S, Answer
from ....runtime.system.failure import Failure
from ....runtime.system.values import number_or_none, word_or_empty
from .pods import PodStatus, parse_pods

DELETE_S = 3600  # timeout for a deletion, which waits until the pods have ended
DELETE_LOOK_S = 0.5
RUNTIME = "TrainingRuntime"
TRIES = 10  # attempts to create a TrainJob, one per second
_IDENTITIES = (
    '{range .items[%s]}{.apiVersion}{"\\t"}{.kind}{"\\t"}{.metadata.name}{"\\t"}{.metadata.uid}{"\\t"}'
    '{.metadata.resourceVersion}{"\\n"}{end}'
)
_OBJECT = (
    '{.metadata.uid}{"\\t"}{.metadata.annotations.jobc/owner}{"\\t"}{.apiVersion}{"\\t"}{.kind}{"\\t"}{.metadata.name}'
    '{"\\n"}{range .status.conditions[?(@.status=="True")]}'
    '{.type}{"\\t"}{.reason}{"\\t"}{.message}{"\\n"}{end}'
)
_DEADLINE = (
    '{range .items[*].status.conditions[?(@.reason=="DeadlineExceeded")]}'
    '{.type}{"\\t"}{.reason}{"\\t"}{.message}{"\\n"}{end}'
)
if TYPE_CHECKING:
    Ask = Callable[..., Answer]  # Engine.ask


class JobObject(NamedTuple):
    """A job's Kubernetes object, with its context and namespace.

    companions: the kinds of the objects that are created with it
    """

    object: str
    kind: str
    companions: str
    nodes: int
    context: str
    namespace: str

    def __str__(self) -> str:
        return f"namespace {self.namespace}" + (f" of context {self.context}" if self.context else "")


class UnknownContext(Failure):
    """Raised if the kubeconfig no longer contains the context."""


class ObjectCondition(NamedTuple):
    type: str
    reason: str
    message: str


class ObjectIdentity(NamedTuple):
    """One object, identified by its uid, because a later object may have the same name.

    resource_version: changes whenever the object changes, or "" if it is not needed
    """

    version: str
    kind: str
    name: str
    uid: str
    resource_version: str = ""

    def api_path(self, namespace: str) -> str:
        group = "api" if "/" not in self.version else "apis"
        return f"/{group}/{self.version}/namespaces/{namespace}/{self.kind.lower()}s/{self.name}"


class FoundObject(NamedTuple):
    """The job's object in the cluster.

    uid: "" if the object does not exist
    conditions: only those whose status is True
    owner: USER@HOST and run ID, or "" if jobctl did not create the object
    """

    identity: ObjectIdentity
    owner: str
    conditions: tuple[ObjectCondition, ...]

    @property
    def uid(self) -> str:
        return self.identity.uid

    @property
    def has_ended(self) -> bool:
        return any(condition.type in ("Complete", "Completed", "Failed") for condition in self.conditions)

    def belongs_to_run(self, run_id: str, uid: str) -> bool:
        """Return whether the run created this object. uid: the uid that the run recorded, or "" if it recorded none"""
        return bool(self.uid) and (self.uid == uid if uid else self.owner.endswith(f", run {run_id}"))


class Cluster:
    """Runs kubectl in a job's context and namespace."""

    def __init__(self, ask: Ask, target: JobObject) -> None:
        self.ask, self.target = ask, target

    def run_kubectl(self, *words: str, text: str = "") -> Answer:
        """Run kubectl, with `text` as stdin."""
        return self.ask(self.kubectl_command(*words), timeout_s=ASK_S, text=text)

    def kubectl_command(self, *words: str) -> list[str]:
        context = [f"--context={self.target.context}"] if self.target.context else []
        return ["kubectl", *context, f"--namespace={self.target.namespace}", *words]

    def exec_command(self, pod: str, *words: str, options: Sequence[str] = ()) -> list[str]:
        """Return the command that runs `words` in the ranks' container of a pod."""
        return self.kubectl_command("exec", *options, pod, "--container=node", "--", *words)

    def run_in_pod(self, pod: str, *words: str) -> Answer:
        return self.ask(self.exec_command(pod, *words), timeout_s=ASK_S)

    def _run_kubectl_get(self, *words: str) -> str:
        answer = self.run_kubectl("get", *words)
        if answer.code == 0:
            return answer.text
        why = (answer.errors.strip().splitlines() or [f"kubectl exited with {answer.code}"])[-1]
        if why.startswith("error: context ") and why.endswith(" does not exist"):
            raise UnknownContext(f"cannot query {self.target}: the kubeconfig has no such context")
        hint = "check the connection with kubectl cluster-info"
        raise Failure(f"cannot query {self.target}: {why.rpartition('): ')[2]}", hint)

    def find_object(self, suffix: str = "") -> FoundObject:
        """Return the job's object whose name ends with the suffix. Raises Failure."""
        target, name = self.target, self.target.object + suffix
        output = self._run_kubectl_get(target.kind, name, "--ignore-not-found", f"--output=jsonpath={_OBJECT}")
        first, _, text = output.partition("\n")
        uid, owner, version, kind, known_name = [*first.split("\t"), "", "", "", ""][:5]
        found = FoundObject(ObjectIdentity(version, kind, known_name, uid), owner, _parse_conditions(text))
        if target.kind.startswith("jobset.") and found.has_ended:
            # the JobSet's own conditions do not mention the deadline
            selector = f"--selector=jobset.sigs.k8s.io/jobset-name={name}"
            deadline = self.run_kubectl("get", "jobs", selector, f"--output=jsonpath={_DEADLINE}").text
            found = found._replace(conditions=(*_parse_conditions(deadline), *found.conditions))
        return found

    def pods(self) -> list[PodStatus]:
        """Return the object's pods, newest last. Raises Failure."""
        return parse_pods(self._run_kubectl_get("pods", f"--selector=jobc/job={self.target.object}", "--output=json"))

    def delete_with_companions(self, suffix: str) -> None:
        """Delete the object, wait until it and its pods are gone, and then delete its companions. Raises Failure."""
        companions, found = self.list_companions(suffix), self.find_object(suffix)
        self.delete_found_object(found)
        for companion in companions:
            self.start_deletion(companion)

    def delete_found_object(self, found: FoundObject) -> None:
        """Delete this object, but not a newer one with the same name, and wait until it is gone. Raises Failure."""
        if not found.uid:
            return
        self.start_deletion(found.identity, "Foreground")
        suffix, until = found.identity.name[len(self.target.object) :], time.monotonic() + DELETE_S
        while self.find_object(suffix).uid == found.uid:
            if time.monotonic() >= until:
                what = f"{self.target.kind} {found.identity.name} in {self.target}"
                raise Failure(f"{what} was not deleted within {DELETE_S} s")
            time.sleep(DELETE_LOOK_S)

    def list_companions(self, suffix: str = "") -> list[ObjectIdentity]:
        return self.list_objects(self.target.companions, f"jobc/job={self.target.object}{suffix}")

    def list_objects(self, kinds: str, selector: str, condition: str = "*") -> list[ObjectIdentity]:
        """Return the objects that match a label selector. Raises Failure.

        condition: JSONPath filter for the items
        """
        output = self._run_kubectl_get(kinds, f"--selector={selector}", f"--output=jsonpath={_IDENTITIES % condition}")
        lines = (line.split("\t") for line in output.splitlines())
        return [ObjectIdentity(*words) for words in lines if len(words) == len(ObjectIdentity._fields)]

    def remove_leftovers(self, leftovers: list[ObjectIdentity]) -> None:
        """Delete what an ended or interrupted job left behind. Raises Failure if another submit has started the job.

        A TrainingRuntime is created before its TrainJob, so it may belong to a job that another submit is just
        starting. After creating the TrainJob, that submit patches the runtime (ObjectCreator._own_runtime). This method
        reads the runtime's version before it checks that no TrainJob exists, and deletes only that version, so the
        server rejects either this deletion or that patch.
        """
        uids = {each.uid for each in leftovers}
        runtimes = [each for each in leftovers if each.kind == RUNTIME]
        for _ in range(TRIES if runtimes else 0):
            runtimes = [each for each in self.list_companions() if each.kind == RUNTIME and each.uid in uids]
            if (found := self.find_object()).uid:
                raise live_object_failure(found, self.target)
            if not runtimes:
                break
            time.sleep(1)
        for each in [*(each for each in leftovers if each.kind != RUNTIME), *runtimes]:
            self.start_deletion(each, is_unchanged=each.kind == RUNTIME)

    def start_deletion(self, identity: ObjectIdentity, policy: str = "Background", is_unchanged: bool = False) -> None:
        """Start deleting this object if it still exists. Raises Failure.

        policy: with Foreground, the object remains until its pods are gone
        is_unchanged: delete it only if it is still the same version

        This does not use `kubectl delete`, which cannot match a uid, and which waits with a watch that RBAC may forbid.
        """
        version = {"resourceVersion": identity.resource_version} if is_unchanged else {}
        options = {"preconditions": {"uid": identity.uid, **version}, "propagationPolicy": policy}
        text = json.dumps({"kind": "DeleteOptions", "apiVersion": "v1", **options})
        path = identity.api_path(self.target.namespace)
        answer = self.run_kubectl("delete", "--raw", path, "--filename=-", text=text)
        if answer.code and not is_already_deleted(answer.errors):
            raise Failure(f"cannot delete {identity.kind} {identity.name} in {self.target}: {answer.errors.strip()}")


def live_object_failure(found: FoundObject, target: JobObject) -> Failure:
    """Return the Failure for a submit that finds the job's object still live."""
    owner = f"started by {found.owner or 'someone'}"
    hint = "stop that job with jobctl stop; a job with another name= or spec gets its own object"
    return Failure(f"{target.kind} {target.object} is live in {target}, {owner}", hint)


def is_already_deleted(errors: str) -> bool:
    """Return whether the server rejected a change because the object is gone or a newer object has its name."""
    return "(NotFound)" in errors or "(Conflict)" in errors


def resolve_namespace(ask: Ask, settings: Mapping[str, Any]) -> tuple[str, str]:
    """Return an artifact's context and namespace, which default to kubectl's current ones. Raises Failure."""
    if shutil.which("kubectl") is None:
        raise Failure("kubectl was not found", "put kubectl on PATH; https://kubernetes.io/docs/tasks/tools")
    context, namespace = str(settings.get("context") or ""), str(settings.get("namespace") or "")
    if not context:
        context = ask(["kubectl", "config", "current-context"]).text.strip()
    if not namespace:
        in_context = [f"--context={context}"] if context else []
        words = ["kubectl", "config", "view", "--minify", *in_context, "--output=jsonpath={..namespace}"]
        namespace = ask(words).text.strip() or "default"
    return context, namespace


def recorded_job_object(keys: Mapping[str, str], settings: Mapping[str, Any]) -> JobObject | None:
    """Return the job object in a run's record, or None if the record has no valid object, kind and companions."""
    name, kind, companions = (word_or_empty(keys.get(key, "")) for key in ("object", "kind", "companions"))
    if not name or kind not in settings.get("kinds", ()) or companions not in settings.get("companions", ()):
        return None
    nodes = number_or_none(keys.get("nodes", "")) or 1
    return JobObject(name, kind, companions, nodes, keys.get("context", ""), keys.get("namespace", ""))


def _parse_conditions(text: str) -> tuple[ObjectCondition, ...]:
    rows = (line.split("\t", 2) for line in text.split("\n"))
    return tuple(ObjectCondition(*row) for row in rows if len(row) == 3)
