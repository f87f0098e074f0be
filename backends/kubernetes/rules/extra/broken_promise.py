"""JC4522: fields that Kubernetes has, that no key of the job says, and that would break what the scripts promise.

It is a warning where the job still runs as promised and something beside it suffers.
What a key of the job says is in extra.protected (JC4600). Every field of the pod, the container, the Job, the Service,
the JobSet and the TrainJob in kubernetes_fields.json was looked at; what is neither here nor there is the user's own
affair: it may be wrong, and then the API server, an event or the ranks say so.
Source: Kubernetes 1.37 API reference, PodSpec, Container, JobSpec; "Share process namespace between containers in a
Pod"; "Container Lifecycle Hooks"; "Sidecar Containers"; KEP-3521 (schedulingGates), KEP-4368 (managedBy).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from .....compiler.diagnostics.diagnostic import Diagnostic, Severity
from .....compiler.emit.overlay import Path
from .....compiler.plan.launch_plan import LaunchPlan
from ...extra import KEY
from ...options import KubernetesOptions
from ._added import known


class Promise(NamedTuple):
    """paths: in the documents, `*` for any name; breaks: whether a value does. hint: in place of it"""

    paths: tuple[Path, ...]
    because: str
    hint: str
    breaks: Callable[[Any], bool] = bool
    severity: Severity = Severity.ERROR
    verb: str = "would break the job"


_POD = ("Pod", "spec")
_NODE = (*_POD, "containers", "node")
RUNTIME = ("TrainingRuntime", "spec", "template", "spec")
_REPLICATED = ("replicatedJobs", "node", "template", "spec")
JOBS = (("Job", "spec"), ("JobSet", "spec", *_REPLICATED), (*RUNTIME, *_REPLICATED))
_STARTED = (*JOBS, ("JobSet", "spec"), RUNTIME, ("TrainJob", "spec"))  # each can be held back, or given away
_KINDS = ("Pod", "Service", "Job", "JobSet", "TrainingRuntime", "TrainJob")
OWN_CONTROLLERS = (
    "kubernetes.io/job-controller", "jobset.sigs.k8s.io/jobset-controller", "trainer.kubeflow.org/trainjob-controller",
)  # fmt: skip
OPENS = "opens the pod to its node"


def below(paths: Iterable[Path], *names: str) -> tuple[Path, ...]:
    return tuple((*path, name) for path in paths for name in names)


def _is_given(value: Any) -> bool:
    return value not in (None, (), {})


PROMISES = (
    Promise(
        (("Pod", "spec", "hostPID"),),
        "stop.sh and the kubelet signal process 1 of the pod, which would be the first process of the machine",
        "`kubectl debug node/NODE -it --image=IMAGE` sees the processes of a node",
    ),
    Promise(
        (("Pod", "spec", "shareProcessNamespace"),),
        "stop.sh signals process 1 of the pod, which would be the pause container, and the ranks would not save",
        "`kubectl debug POD -it --target=node --image=IMAGE` sees the processes of the job",
    ),
    Promise(
        (("Pod", "spec", "nodeName"),),
        "every pod would be put on that node, past the scheduler, which alone knows whether its GPUs are free",
        "hosts=node1, as many as there are nodes",
    ),
    Promise(
        (("Pod", "spec", "activeDeadlineSeconds"),),
        "it ends a pod without asking the ranks to save, and counts from the start of the pod, not of the ranks",
        "time=2h, of each attempt; backend.deadline=1d, of the whole job",
    ),
    Promise(
        below(_STARTED, "suspend"),
        "no pod would start, and submit.sh waits for them; Kueue suspends and starts a job by itself",
        "queue.name=team, a LocalQueue of Kueue",
    ),
    Promise(
        (("Pod", "spec", "schedulingGates"),),
        "no pod would start until somebody takes the gate away, and submit.sh waits; Kueue gates pods by itself",
        "queue.name=team, a LocalQueue of Kueue",
        _is_given,
    ),
    Promise(
        below(_STARTED, "managedBy"),
        "the controller that starts pods here would leave it to another one, whose pods the scripts do not see",
        f"remove it, or {OWN_CONTROLLERS[0]}",
        lambda value: value not in OWN_CONTROLLERS,
    ),
    Promise(
        below(JOBS, "manualSelector"),
        "a Job with it needs a selector of its own, and this one has the one that Kubernetes makes",
        "remove it: the selector that Kubernetes makes is that of this Job alone",
    ),
    Promise(
        below((_NODE,), "livenessProbe", "startupProbe"),
        "the kubelet kills the container when it fails, and ranks that compute or save may be slow to answer; those"
        " that wait in vain end by themselves",
        "process_group.step_timeout_s=100, after which they do; a readinessProbe, which kills nothing",
        _is_given,
    ),
    Promise(
        (*below((_NODE,), "lifecycle"),),
        "SIGTERM comes after preStop and within the same grace period, which is as long as saving takes; and SIGTERM is"
        " what the supervisor of the node knows as the wish to end",
        "lifecycle.grace=2m, if the ranks need longer; lifecycle: {postStart: …} is taken",
        lambda value: isinstance(value, Mapping) and bool({"preStop", "stopSignal"} & {*value}),
    ),
    Promise(
        (("Pod", "spec", "os"),),
        "the scripts need bash",
        "remove it, or backend.extra.Pod.spec.os.name=linux",
        lambda value: isinstance(value, Mapping) and value.get("name") not in (None, "linux"),
    ),
    Promise(
        (("Pod", "spec", "ephemeralContainers"),),
        "Kubernetes adds them to a pod that runs, and takes none in a template",
        "`kubectl debug POD -it --target=node --image=IMAGE`",
        _is_given,
    ),
    Promise(
        (("Pod", "spec", "priority"),),
        "Kubernetes reads the number from the class, and refuses pods that say another one",
        "queue.priority=high, a PriorityClass",
        lambda value: value is not None,
    ),
    Promise(
        below(((kind, "metadata") for kind in _KINDS), "finalizers"),
        "who it waits for would have to take it away: until then stop.sh and clean.sh wait as well",
        "remove it",
        _is_given,
    ),
    Promise(
        below(
            ((kind, "metadata") for kind in _KINDS),
            *("creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "managedFields"),
            *("resourceVersion", "selfLink", "uid"),
        ),
        "the API server says it of an object that is there, and refuses or drops what a new one says",
        "remove it",
        lambda value: value is not None,
    ),
    Promise(
        (("Service", "spec", "type"), ("Service", "spec", "externalName")),
        "it gives the pods their names, which a Service without an address of its own does alone",
        "a Service of your own beside it",
        lambda value: value not in (None, "ClusterIP"),
    ),
    Promise(
        (("Pod", "spec", "hostIPC"),),
        "the ranks share System V memory, semaphores and queues with all other processes of the node",
        "shm=16GiB, which is the pod's own /dev/shm",
        severity=Severity.WARNING,
        verb=OPENS,
    ),
    Promise(
        ((*_NODE, "securityContext", "privileged"), (*_POD, "initContainers", "*", "securityContext", "privileged")),
        "it sees every device of its node, also the GPUs that other pods have; and a namespace with a Pod Security"
        " Standard takes no such pod",
        "network=infiniband, which adds IPC_LOCK; backend.network_resource=NAME:COUNT for its devices",
        severity=Severity.WARNING,
        verb=OPENS,
    ),
    Promise(
        ((*_NODE, "terminationMessagePolicy"),),
        "status.sh tells the last words of a pod whose log is gone, and they would not be kept",
        "remove it: FallbackToLogsOnError",
        lambda value: value == "File",
        Severity.WARNING,
        "hides how a pod ended",
    ),
    Promise(
        ((*_POD, "containers", "*"),),
        "a pod ends when its last container does: one that runs on keeps the GPUs when the ranks have ended, and one"
        " that fails counts as a failed node",
        "backend.extra.Pod.spec.initContainers.NAME.restartPolicy=Always: a sidecar, which ends with the ranks",
        lambda value: isinstance(value, Mapping),
        Severity.WARNING,
        "may outlive the ranks",
    ),
)


def check(plan: LaunchPlan, options: KubernetesOptions) -> Iterator[Diagnostic]:
    extra = known(options)
    for promise in PROMISES:
        for path in promise.paths:
            for value_path, value in values_at(extra, path):
                if value is not None and promise.breaks(value):
                    key = ".".join((KEY, *value_path))
                    title = f"{key} {promise.verb}"
                    yield Diagnostic("JC4522", title, promise.because, promise.hint, key=key, severity=promise.severity)


def values_at(tree: Any, path: Path, at: Path = ()) -> Iterator[tuple[Path, Any]]:
    """What is there; `*` is any name but that of the node's own container."""
    if not path:
        yield at, tree
    elif isinstance(tree, Mapping):
        names = [name for name in tree if name != "node"] if path[0] == "*" else [path[0]]
        for name in names:
            yield from values_at(tree.get(name), path[1:], (*at, name))
