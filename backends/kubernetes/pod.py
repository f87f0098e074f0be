"""One node's pod, as data: the same in a Job, a JobSet and a TrainJob.

Each leaf is a function of the views `plan` and `options`, so that the origin of every emitted YAML line is recorded.
Source: Kubernetes API reference, Pod v1 core, 1.32 to 1.37; observed behavior on v1.36.2.
"""

from collections.abc import Callable, Sequence
from typing import Any

from ...compiler.emit.render import Given, Leaf, Omit, of
from ...compiler.plan.launch_plan import LaunchPlan, Mount
from . import extra_fields, gpu_types, network, pod_security
from .names import object_name, pod_host
from .options import KubernetesOptions
from .reserved_paths import OWN

CONTAINER = "node"
FILES, ARTIFACT = f"{OWN}/files", f"{OWN}/artifact"  # the ConfigMap; the artifact unpacked from it
START = ["python3", "-I", "-S", f"{FILES}/start.py"]  # start.py, which execs `jobctl join` (engine/join.py)
CODE = f"{OWN}/code"  # the ConfigMap with the packed code, if code=snapshot
RUNS = f"{OWN}/runs"  # the runs, if storage.run=node and they are not on a mounted volume
JOB_LABEL = "jobc/job"
HOSTNAME = "kubernetes.io/hostname"  # node label

# With the code from jobctl submit. It is optional, so that a pod can report missing code.
CODE_CONFIG_MAP = {"name": lambda v: f"{object_name(v)}-code", "optional": True}

UID_VARIABLE = "JOBC_JOB_UID"  # an ID that stays the same when the engine restarts the pods


def pod_template(plan: LaunchPlan, options: KubernetesOptions) -> dict[str, Any]:
    tcpx_metadata = {"annotations": network.tcpx_annotations()} if plan.network.profile == "tcpx" else {}
    bare_template = {"metadata": {"labels": pod_labels(plan), **tcpx_metadata}, "spec": pod_spec(plan, options)}
    template = extra_fields.merge_extra(extra_fields.POD, bare_template, options)
    return {**template, "spec": pod_security.add_security_contexts(template["spec"], options)}


def pod_labels(plan: LaunchPlan) -> dict[str, Any]:
    return {JOB_LABEL: object_name, **{key: _label_leaf(key) for key in plan.labels}}


def _label_leaf(key: str) -> Leaf:
    return lambda v: v.plan.labels[key]


def pod_spec(plan: LaunchPlan, options: KubernetesOptions) -> dict[str, Any]:
    return {
        "subdomain": object_name if options.flavor == "job" else Omit,
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": grace_period,
        "enableServiceLinks": False,
        "automountServiceAccountToken": False,
        "serviceAccountName": Given(of.options.service_account),
        "imagePullSecrets": Given(lambda v: [{"name": secret} for secret in v.options.image_pull_secrets] or None),
        "runtimeClassName": Given(of.options.runtime_class),
        "priorityClassName": Given(of.plan.queue.priority),
        "hostNetwork": Given(lambda v: v.options.host_network or None),
        "dnsPolicy": Given(lambda v: "ClusterFirstWithHostNet" if v.options.host_network else None),
        "nodeSelector": Given(node_selector),
        "tolerations": Given(lambda v: [parse_toleration(text) for text in v.options.tolerations] or None),
        "affinity": Given(lambda v: affinity(v.plan, v.options) or None),
        "topologySpreadConstraints": Given(lambda v: topology_spread_constraints(v.options.topology_spread)),
        "securityContext": Given(security_context),
        "initContainers": [network.tcpx_daemon_container()] if plan.network.profile == "tcpx" else Omit,
        "containers": [ranks_container(plan, options)],
        "volumes": pod_volumes(plan),
    }


def ranks_container(plan: LaunchPlan, options: KubernetesOptions) -> dict[str, Any]:
    return {
        "name": CONTAINER,
        "image": of.plan.container.image,
        "imagePullPolicy": Given(of.options.image_pull_policy),
        "workingDir": Given(of.plan.container.workdir),
        # An argument list, so that the supervisor ends up as PID 1 and receives SIGTERM from the kubelet.
        "command": START,
        "env": container_environment(plan, options),
        "resources": {"requests": Given(resource_requests), "limits": Given(resource_limits)},
        "securityContext": Given(container_security),
        # jobctl status shows the end of the log even if the log itself is gone.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            {"name": "files", "mountPath": FILES},
            {"name": "artifact", "mountPath": ARTIFACT},
            *_optional_entry(_sends_code, plan, "code", "mountPath", CODE),
            *_optional_entry(has_own_volume, plan, "runs", "mountPath", RUNS),
            {"name": "shm", "mountPath": "/dev/shm"},
            *(network.tcpx_volume_mounts() if plan.network.profile == "tcpx" else ()),
            *(_volume_mount(i) for i in range(len(plan.mounts))),
        ],
    }


def container_environment(plan: LaunchPlan, options: KubernetesOptions) -> list[dict[str, Any]]:
    """Return the environment of `jobctl join`.

    jobctl submit inserts JOBC_PAYLOAD, JOBC_RUN_ID, JOBC_FORK_OF and JOBC_SUBMITTED before these entries. The
    variables in the key `env` are set by launch.sh.
    """
    uid_label = "batch.kubernetes.io/controller-uid" if options.flavor == "job" else "jobset.sigs.k8s.io/jobset-uid"
    return [
        {"name": UID_VARIABLE, "valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{uid_label}']"}}},
        *([{"name": "LD_LIBRARY_PATH", "value": network.TCPX_LIBRARIES}] if plan.network.profile == "tcpx" else ()),
        *(_secret_variable(name) for name in plan.secrets if plan.secrets[name].kind == "k8s"),
    ]


def head_dns_name(v: Any) -> str:
    """Return the DNS name of pod 0 in the Service or JobSet."""
    name = object_name(v)
    return f"{pod_host(name, v.options.flavor, 0)}.{name}"


def run_root(plan: Any) -> str:
    """Return the folder that holds all runs, as a path in the pod."""
    if has_own_volume(plan):
        return RUNS
    return str(plan.run.scratch if plan.run.storage == "object" else plan.run.root)


def has_own_volume(plan: Any) -> bool:
    """Return whether each pod has its own volume for the runs, which is deleted with the pod."""
    return bool(plan.run.storage == "node")


def grace_period(v: Any) -> int:
    """Return how many seconds the kubelet waits before SIGKILL. With a bucket, this includes the checkpoint upload."""
    save_s: int = v.plan.lifecycle.kill_after_s
    return save_s + v.plan.lifecycle.grace_s if v.plan.run.storage == "object" else save_s


def to_kubernetes_quantity(size: int) -> str:
    """Return bytes as a Kubernetes quantity, without rounding; Gi and Mi are powers of 1024."""
    for unit, factor in (("Gi", 1024**3), ("Mi", 1024**2), ("Ki", 1024)):
        if size % factor == 0:
            return f"{size // factor}{unit}"
    return str(size)


def resource_requests(v: Any) -> dict[str, Any] | None:
    """Return the resource requests: the limits plus `cpus`, overridden by `backend.requests`.

    `cpus` is a request but not a limit, because a CPU limit would throttle the pod.
    """
    cpus = v.plan.resources.cpus
    of_job = {**(resource_limits(v) or {}), **({"cpu": str(cpus)} if cpus else {})}
    return dict(sorted({**of_job, **v.options.requests}.items(), key=lambda item: item[0] != "cpu")) or None


def resource_limits(v: Any) -> dict[str, Any] | None:
    memory, gpus = v.plan.resources.mem_bytes, v.plan.topology.gpus
    quantities = {"memory": to_kubernetes_quantity(memory)} if memory else {}
    if gpus:
        quantities[v.options.gpu_resource] = str(gpus)
    if device := network.network_resource(v.plan, v.options):
        resource, _, count = device.rpartition(":")
        quantities[resource] = count
    return {**quantities, **v.options.limits} or None


def node_selector(v: Any) -> dict[str, str] | None:
    selector = dict(text.split("=", 1) for text in v.options.node_selector)
    gpus = gpu_types.gpu_label_values(v.plan, v.options)
    if len(gpus) == 1:  # several values need a node affinity: see _node_affinity
        selector[gpu_types.gpu_label_name(v.options)] = gpus[0]
    return selector or None


def parse_toleration(text: str) -> dict[str, str]:
    """Parse `KEY[=VALUE][:EFFECT]`, the syntax of `kubectl taint`. Without a value, any value is tolerated."""
    taint, _, effect = text.partition(":")
    key, equals, value = taint.partition("=")
    match = {"operator": "Equal", "value": value} if equals else {"operator": "Exists"}
    return {"key": key, **match, **({"effect": effect} if effect else {})}


def affinity(plan: LaunchPlan, options: KubernetesOptions) -> dict[str, Any]:
    """Return the affinity. It selects hosts and GPUs by node label, and places this job's pods together or apart."""
    rules: dict[str, Any] = {}
    are_hosts_named = plan.resources.hosts or plan.queue.exclude or plan.queue.nodelist
    if are_hosts_named or len(gpu_types.gpu_label_values(plan, options)) > 1:
        rules["nodeAffinity"] = Given(_node_affinity)
    if options.affinity:
        rules["podAffinity"] = _job_pod_term(of.options.affinity)
    if options.anti_affinity or plan.resources.hosts or options.host_network:  # otherwise, pods would share a port
        rules["podAntiAffinity"] = _job_pod_term(lambda v: v.options.anti_affinity or HOSTNAME)
    return rules


def _node_affinity(v: Any) -> dict[str, Any]:
    gpus = gpu_types.gpu_label_values(v.plan, v.options)
    rules = required_node_affinity(
        label_expressions(HOSTNAME, "In", v.plan.resources.hosts)
        + label_expressions(HOSTNAME, "NotIn", v.plan.queue.exclude)
        + label_expressions(gpu_types.gpu_label_name(v.options), "In", gpus if len(gpus) > 1 else ())
    )
    if v.plan.queue.nodelist:
        wish = {
            "weight": 100,
            "preference": {"matchExpressions": label_expressions(HOSTNAME, "In", v.plan.queue.nodelist)},
        }
        rules["preferredDuringSchedulingIgnoredDuringExecution"] = [wish]
    return rules


def label_expressions(label: str, operator: str, values: Sequence[str]) -> list[dict[str, Any]]:
    return [{"key": label, "operator": operator, "values": list(values)}] if values else []


def required_node_affinity(must: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a node affinity that requires a node to match all expressions, or {} if there are none."""
    terms = {"nodeSelectorTerms": [{"matchExpressions": must}]}
    return {"requiredDuringSchedulingIgnoredDuringExecution": terms} if must else {}


def _job_pod_term(topology_key: Leaf) -> dict[str, Any]:
    term = {"labelSelector": {"matchLabels": {JOB_LABEL: object_name}}, "topologyKey": topology_key}
    return {"requiredDuringSchedulingIgnoredDuringExecution": [term]}


def topology_spread_constraints(topology_key: str | None) -> list[dict[str, Any]] | None:
    pods = {"labelSelector": {"matchLabels": {JOB_LABEL: object_name}}}
    rule = {"maxSkew": 1, "topologyKey": topology_key, "whenUnsatisfiable": "DoNotSchedule", **pods}
    return None if topology_key is None else [rule]


def container_security(v: Any) -> dict[str, Any] | None:
    """Return the security context of the ranks' container. RDMA locks memory, which the restricted level forbids."""
    context: dict[str, Any] = pod_security.CONTAINER if v.options.pod_security else {}
    if v.plan.network.profile in network.RDMA_PROFILES:
        return {**context, "capabilities": {**context.get("capabilities", {}), "add": ["IPC_LOCK"]}}
    return context or None


def security_context(v: Any) -> dict[str, Any] | None:
    user, group = v.options.run_as_user, v.options.run_as_group
    context: dict[str, Any] = dict(pod_security.POD) if v.options.pod_security else {}
    context |= {} if user is None else {"runAsUser": user}
    return {**context, **({} if group is None else {"runAsGroup": group, "fsGroup": group})} or None


def pod_volumes(plan: LaunchPlan) -> list[dict[str, Any]]:
    return [
        {"name": "files", "configMap": {"name": object_name}},
        *_optional_entry(_sends_code, plan, "code", "configMap", CODE_CONFIG_MAP),
        *_optional_entry(has_own_volume, plan, "runs", "emptyDir", {}),
        {"name": "artifact", "emptyDir": {}},
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": shm_limit}},
        *(network.tcpx_volumes() if plan.network.profile == "tcpx" else ()),
        *({"name": f"mount-{i}", **_volume_source(plan.mounts[i], i)} for i in range(len(plan.mounts))),
    ]


def _sends_code(plan: Any) -> bool:
    return bool(plan.code.kind == "snapshot")


def _optional_entry(condition: Callable[[Any], bool], plan: LaunchPlan, name: str, key: str, value: Any) -> list[Any]:
    """Return [{name, key: value}] if the condition is true, or [].

    The leaves evaluate the condition again, so that `jobc why` can attribute them to it.
    """
    entry = {"name": name, key: value}
    return [{k: _optional_leaf(condition, v) for k, v in entry.items()}] if condition(plan) else []


def _optional_leaf(condition: Callable[[Any], bool], value: Any) -> Leaf:
    return lambda v: value if condition(v.plan) else Omit


def shm_limit(v: Any) -> str:
    """Return the size limit of /dev/shm: `shm` or, if unset, half of `mem` or, if that is unset too, backend.shm_limit.

    Writes beyond the limit fail with ENOSPC. Files in /dev/shm count toward the pod's memory. Without a limit, they
    could fill the node's memory and cause other pods to be evicted.
    """
    size, memory = v.plan.resources.shm_bytes, v.plan.resources.mem_bytes
    return to_kubernetes_quantity(size or (memory // 2 if memory else v.options.shm_limit))


def _volume_source(mount: Mount, i: int) -> dict[str, Any]:
    def mount_source(v: Any) -> str:
        return str(v.plan.mounts[i].source)

    if mount.kind == "claim":
        return {"persistentVolumeClaim": {"claimName": mount_source, "readOnly": _mount_read_only_field(i)}}
    if mount.kind == "nfs":
        server, path = (lambda v: mount_source(v).partition(":")[0]), (lambda v: mount_source(v).partition(":")[2])
        return {"nfs": {"server": server, "path": path, "readOnly": _mount_read_only_field(i)}}
    if mount.kind == "empty":
        return {"emptyDir": {"sizeLimit": Given(lambda v: mount_source(v) or None)}}
    return {"hostPath": {"path": mount_source, "type": "Directory"}}


def _volume_mount(i: int) -> dict[str, Any]:
    return {"name": f"mount-{i}", "mountPath": lambda v: v.plan.mounts[i].target, "readOnly": _mount_read_only_field(i)}


def _mount_read_only_field(i: int) -> Leaf:
    return Given(lambda v: v.plan.mounts[i].read_only or None)


def _secret_variable(name: str) -> dict[str, Any]:
    def secret_reference(v: Any) -> dict[str, str]:
        secret, _, key = v.plan.secrets[name].ref.partition("/")
        return {"name": secret, "key": key}

    return {"name": name, "valueFrom": {"secretKeyRef": secret_reference}}
