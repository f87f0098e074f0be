"""JC4522: Kubernetes fields that no job key sets, and that would break something the scripts rely on.

If the job still works but something else breaks, the diagnostic is a warning.
Fields that job keys set are listed in extra.protected_fields (JC4600). Every field of the pod, the container, the Job,
the Service, the JobSet and the TrainJob in kubernetes_fields.json was reviewed. Fields in neither list are the user's
responsibility: the API server, an event or the ranks report errors in them.
Source: Kubernetes 1.37 API reference, PodSpec, Container, JobSpec; "Share process namespace between containers in a
Pod"; "Container Lifecycle Hooks"; "Sidecar Containers"; KEP-3521 (schedulingGates), KEP-4368 (managedBy).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from .....compiler.api import Diagnostic, LaunchPlan, Severity
from ...extra_fields import KEY
from ...options import KubernetesOptions
from .fields import validated_extra


class ReservedField(NamedTuple):
    """Fields that users must not set.

    parents, names: where the fields are in `backend.extra`; `*` matches any name except `node` (the ranks' container)
    hint: what to write instead
    breaks: whether a value breaks the job
    warning: what the field does to a job that still works, or "" if it breaks the job
    """

    parents: tuple[str, ...]
    names: str
    because: str
    hint: str
    breaks: Callable[[Any], bool] = lambda value: value not in (False, "", (), {})
    warning: str = ""


_POD = ("Pod.spec",)
_NODE = ("Pod.spec.containers.node",)
_RUNTIME = "TrainingRuntime.spec.template.spec"
_REPLICATED = "replicatedJobs.node.template.spec"
_JOBS = ("Job.spec", f"JobSet.spec.{_REPLICATED}", f"{_RUNTIME}.{_REPLICATED}")
_STARTED = (*_JOBS, "JobSet.spec", _RUNTIME, "TrainJob.spec")  # can be suspended or managed elsewhere
_KINDS = ("Pod", "Service", "Job", "JobSet", "TrainingRuntime", "TrainJob")
_METADATA = tuple(f"{kind}.metadata" for kind in _KINDS)
OWN_CONTROLLERS = (
    "kubernetes.io/job-controller", "jobset.sigs.k8s.io/jobset-controller", "trainer.kubeflow.org/trainjob-controller",
)  # fmt: skip
OPENS = "breaks the isolation between pod and node"

RESERVED = (
    ReservedField(
        _POD, "hostPID shareProcessNamespace",
        "jobctl stop and the kubelet signal PID 1 of the pod, which would not be the ranks' supervisor",
        "`kubectl debug POD -it --target=node --image=IMAGE` shows the job's processes",
    ),
    ReservedField(
        _POD, "nodeName",
        "every pod would go to that node, bypassing the scheduler, which knows whether the node's GPUs are free",
        "hosts=node1, with one host per node",
    ),
    ReservedField(
        _POD, "activeDeadlineSeconds",
        "this deadline kills a pod before its ranks can save, and counts from the start of the pod, not of the ranks",
        "time=2h for each attempt; backend.deadline=1d for the whole job",
    ),
    ReservedField(
        (*_STARTED, *_POD), "suspend schedulingGates",
        "no pod would start until the field is removed; Kueue suspends jobs and gates pods itself",
        "queue.name=team, a Kueue LocalQueue",
    ),
    ReservedField(
        _STARTED, "managedBy",
        "another controller would start the pods, and the scripts would not find them",
        f"remove the field, or {OWN_CONTROLLERS[0]}",
        lambda value: value not in OWN_CONTROLLERS,
    ),
    ReservedField(
        _JOBS, "manualSelector",
        "manualSelector requires your own selector, but this Job uses the generated one",
        "remove manualSelector: the generated selector is unique to this Job",
    ),
    ReservedField(
        _NODE, "livenessProbe startupProbe",
        "the kubelet kills the container when the probe fails, and ranks may respond slowly while they save; hung "
        "ranks exit by themselves",
        "process_group.step_timeout_s=100, to detect hung ranks; or a readinessProbe, which does not kill",
    ),
    ReservedField(
        _NODE, "lifecycle",
        "preStop uses up the grace period in which the ranks save: Kubernetes sends SIGTERM only after preStop ends",
        "lifecycle.grace=2m, if the ranks need longer; lifecycle: {postStart: …} is supported",
        lambda value: isinstance(value, Mapping) and bool({"preStop", "stopSignal"} & {*value}),
    ),
    ReservedField(
        _POD, "os",
        "the scripts need bash",
        "remove the field, or backend.extra.Pod.spec.os.name=linux",
        lambda value: isinstance(value, Mapping) and value.get("name") not in (None, "linux"),
    ),
    ReservedField(
        _POD, "ephemeralContainers",
        "Kubernetes allows ephemeral containers only in running pods, not in a template",
        "`kubectl debug POD -it --target=node --image=IMAGE`",
    ),
    ReservedField(
        _POD, "priority",
        "Kubernetes derives the priority from the priority class, and rejects pods with a different number",
        "queue.priority=high, a PriorityClass",
        lambda value: True,
    ),
    ReservedField(
        _METADATA, "finalizers",
        "a controller would have to remove the finalizer, and jobctl stop and jobctl clean would wait until then",
        "remove the finalizers",
    ),
    ReservedField(
        _METADATA,
        "creationTimestamp deletionTimestamp deletionGracePeriodSeconds generation managedFields resourceVersion "
        "selfLink uid",
        "the API server sets this field, and rejects or ignores it in a new object",
        "remove the field",
    ),
    ReservedField(
        ("Service.spec",), "type externalName",
        "pod names resolve only through a headless Service",
        "add a second Service",
        lambda value: value != "ClusterIP",
    ),
    ReservedField(
        _POD, "hostIPC",
        "the ranks would share System V memory, semaphores and queues with all processes on the node",
        "shm=16GiB, which is the pod's own /dev/shm",
        warning=OPENS,
    ),
    ReservedField(
        ("Pod.spec.containers.node.securityContext", "Pod.spec.initContainers.*.securityContext"), "privileged",
        "the container would see every device on its node, including other pods' GPUs; and a namespace with a Pod "
        "Security Standard rejects such pods",
        "network=infiniband, which adds IPC_LOCK; backend.network_resource=NAME:COUNT for its devices",
        warning=OPENS,
    ),
    ReservedField(
        _NODE, "terminationMessagePolicy",
        "Kubernetes would not keep the last lines of a pod's log, which jobctl status prints once the log is gone",
        "remove the field, which jobc sets to FallbackToLogsOnError",
        lambda value: value == "File",
        "hides how a pod ended",
    ),
    ReservedField(
        ("Pod.spec.containers",), "*",
        "a pod ends when its last container ends: a container that keeps running blocks the GPUs after the ranks have "
        "exited, and a container that fails counts as a failed node",
        "backend.extra.Pod.spec.initContainers.NAME.restartPolicy=Always: a sidecar, which ends when the ranks end",
        lambda value: isinstance(value, Mapping),
        "may outlive the ranks",
    ),
)  # fmt: skip


def check(plan: LaunchPlan, options: KubernetesOptions) -> Iterator[Diagnostic]:
    extra = validated_extra(options)
    for field in RESERVED:
        for path in (f"{parent}.{name}" for parent in field.parents for name in field.names.split()):
            for value_path, value in matching_values(extra, path.split(".")):
                if value is not None and field.breaks(value):
                    key = ".".join((KEY, *value_path))
                    title = f"{key} {field.warning or 'would break the job'}"
                    severity = Severity.WARNING if field.warning else Severity.ERROR
                    yield Diagnostic("JC4522", title, field.because, field.hint, key=key, severity=severity)


def matching_values(
    tree: Any, path: Sequence[str], prefix: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Any]]:
    if not path:
        yield prefix, tree
    elif isinstance(tree, Mapping):
        names = [name for name in tree if name != "node"] if path[0] == "*" else [path[0]]
        for name in names:
            yield from matching_values(tree.get(name), path[1:], (*prefix, name))
