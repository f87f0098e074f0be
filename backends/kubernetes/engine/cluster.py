"""A job's object and its pods in a Kubernetes cluster, as kubectl reports them. Packed into jobctl; Python 3.8.

In   Target: object, context and namespace, from the record of a run or from the settings of an artifact
Out  uid, owner and conditions of the object; its pods; Failure if the cluster does not answer
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from ....runtime.engines.engine import ASK_S, Answer
from ....runtime.system.failure import Failure
from ....runtime.system.values import number, word

DELETE_S = 3600  # timeout of a deletion, which waits until the pods have ended
_OBJECT = (
    '{.metadata.uid}{"\\t"}{.metadata.annotations.jobc/owner}{"\\n"}{range .status.conditions[?(@.status=="True")]}'
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

if TYPE_CHECKING:
    Ask = Callable[..., Answer]  # Engine.ask


class Target(NamedTuple):
    """The Kubernetes object of a job, with its context and namespace. companions: kinds of the objects beside it"""

    object: str
    kind: str
    companions: str
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


class Found(NamedTuple):
    """The object as the cluster has it: uid is "" if it does not exist; conditions: those whose status is True."""

    uid: str
    owner: str
    conditions: tuple[Condition, ...]

    @property
    def has_ended(self) -> bool:
        return has_ended(self.conditions)


class Cluster:
    """kubectl in the context and namespace of a job. ask: runs a program, as Engine.ask does"""

    def __init__(self, ask: Ask, target: Target) -> None:
        self.ask, self.target = ask, target

    def k(self, *words: str, text: str = "", timeout_s: float = ASK_S) -> Answer:
        """Run kubectl, with `text` as its input."""
        return self.ask(self.command(*words), timeout_s=timeout_s, text=text)

    def command(self, *words: str) -> list[str]:
        """Return the words of a kubectl command."""
        context = [f"--context={self.target.context}"] if self.target.context else []
        return ["kubectl", *context, f"--namespace={self.target.namespace}", *words]

    def look(self, suffix: str = "") -> Found:
        """Return the object whose name has that suffix. Raises Failure."""
        target, name = self.target, self.target.object + suffix
        answer = self.k("get", target.kind, name, "--ignore-not-found", f"--output=jsonpath={_OBJECT}")
        if answer.code:
            why = answer.errors.strip().rpartition(": ")[2]
            hint = "check the connection with kubectl cluster-info"
            raise Failure(f"cannot query {target}: {why}", hint)
        first, _, text = answer.text.partition("\n")
        uid, _, owner = first.partition("\t")
        conditions = _conditions(text)
        if target.kind.startswith("jobset.") and has_ended(conditions):
            # the JobSet's own conditions do not mention the deadline
            selector = f"--selector=jobset.sigs.k8s.io/jobset-name={name}"
            deadline = self.k("get", "jobs", selector, f"--output=jsonpath={_DEADLINE}")
            conditions = (*_conditions(deadline.text), *conditions)
        return Found(uid, owner, conditions)

    def pods(self) -> list[Pod]:
        """Return the pods of the object, newest last."""
        answer = self.k(
            "get", "pods", f"--selector=jobc/job={self.target.object}",
            "--sort-by=.metadata.creationTimestamp", f"--output=jsonpath={_PODS}",
        )  # fmt: skip
        return [pod for line in answer.text.split("\n") for pod in _pod(line)]

    def delete(self, suffix: str) -> None:
        """Delete the object and its companions, and wait until the pods are gone: no name may lead to an old pod.

        Raises Failure.
        """
        name = self.target.object + suffix
        words = ("delete", self.target.kind, name, "--ignore-not-found", "--cascade=foreground")
        answer = self.k(*words, timeout_s=DELETE_S)
        if answer.code:
            raise Failure(f"cannot delete {self.target.kind} {name} in {self.target}: {answer.errors.strip()}")
        self.delete_companions(suffix)

    def delete_companions(self, suffix: str) -> None:
        """Delete what was created beside the object. Raises Failure."""
        selector = f"--selector=jobc/job={self.target.object}{suffix}"
        answer = self.k("delete", self.target.companions, selector, "--ignore-not-found", timeout_s=DELETE_S)
        if answer.code:
            raise Failure(f"cannot delete {self.target.companions} in {self.target}: {answer.errors.strip()}")


def target_of_artifact(settings: Mapping[str, Any], nodes: int, context: str, namespace: str) -> Target:
    """Return what an artifact creates."""
    created = settings["creates"]
    return Target(created["object"], created["kind"], created["companions"], nodes, context, namespace)


def chosen_namespace(ask: Ask, settings: Mapping[str, Any]) -> tuple[str, str]:
    """Return the context and the namespace of an artifact: kubectl's own if the spec sets none. Raises Failure."""
    if shutil.which("kubectl") is None:
        raise Failure("kubectl is not found", "put it on PATH; https://kubernetes.io/docs/tasks/tools")
    context, namespace = str(settings.get("context") or ""), str(settings.get("namespace") or "")
    if not context:
        context = ask(["kubectl", "config", "current-context"]).text.strip()
    if not namespace:
        in_context = [f"--context={context}"] if context else []
        words = ["kubectl", "config", "view", "--minify", *in_context, "--output=jsonpath={..namespace}"]
        namespace = ask(words).text.strip() or "default"
    return context, namespace


def target_of_record(keys: Mapping[str, str], settings: Mapping[str, Any]) -> Target | None:
    """Return what the record of a run names; None if it does not name an object, its kind and its companions."""
    name, kind, companions = (word(keys.get(key, "")) for key in ("object", "kind", "companions"))
    if not name or kind not in settings.get("kinds", ()) or companions not in settings.get("companions", ()):
        return None
    nodes = number(keys.get("nodes", "")) or 1
    return Target(name, kind, companions, nodes, keys.get("context", ""), keys.get("namespace", ""))


def running(pods: list[Pod]) -> list[Pod]:
    return [pod for pod in pods if pod.phase == "Running"]


def has_ended(conditions: tuple[Condition, ...]) -> bool:
    return any(condition.type in ("Complete", "Completed", "Failed") for condition in conditions)


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
