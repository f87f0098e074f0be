"""Conflicts between job keys and `backend.extra` in the finished pod: JC4525, JC4550."""

from collections.abc import Iterator, Mapping
from typing import Any

from .....compiler.diagnostics.diagnostic import Diagnostic
from ... import extra_fields
from ...options import KubernetesOptions
from ...pod import ARTIFACT, CODE, CONTAINER, FILES, RUNS
from ...pod_security import find_pod_security_violations
from ...reserved_paths import OWN, is_jobc_path, normalize_path
from ..unfit_resource import SHARED, conflicting_requests

Tree = Mapping[str, Any]
SPEC = f"{extra_fields.KEY}.{extra_fields.POD}.spec"
KEY = "backend.pod_security"
CAUSES = {  # word in a violation -> the key to change
    "hostNetwork": "backend.host_network=false",
    "type hostPath": "mounts of kind claim, not host",
    "type nfs": "mounts of kind claim, not nfs",
    "IPC_LOCK": "network=ethernet",
    "NET_ADMIN": "network=ethernet",
    "runAsUser=0": "backend.run_as_user=1000",
}
OURS = (("files", FILES), ("artifact", ARTIFACT), ("code", CODE), ("runs", RUNS))


def containers_and_keys(pod: Tree) -> Iterator[tuple[Tree, str]]:
    for kind in ("initContainers", "containers"):
        for container in pod.get(kind) or ():
            yield container, f"{SPEC}.{kind}.{container['name']}"


def check_pod_security_violations(pod: Mapping[str, Any], options: KubernetesOptions) -> Iterator[Diagnostic]:
    """JC4525: a pod that `backend.pod_security=restricted` forbids, because of a job key or of `backend.extra`."""
    found = list(dict.fromkeys(find_pod_security_violations(pod))) if options.pod_security else []
    if found:
        changes = dict.fromkeys(change for word, change in CAUSES.items() if any(word in text for text in found))
        because = "a namespace with that Pod Security level rejects the pods, so the job would never start"
        hint = " and ".join(changes) or "remove these settings from backend.extra"
        title = f"{KEY}=restricted forbids {', '.join(found)}"
        yield Diagnostic("JC4525", title, because, f"{hint}; or {KEY}=null", key=KEY)


def check_forbidden_root_user(pod: Tree, options: KubernetesOptions) -> Iterator[Diagnostic]:
    """JC4550: runAsUser=0 in a pod with runAsNonRoot, which would stay in CreateContainerConfigError.

    Source: Kubernetes 1.37, verifyRunAsNonRoot in pkg/kubelet/kuberuntime/security_context_others.go.
    """
    for container, key in containers_and_keys(pod):
        of_pod, of_container = (tree.get("securityContext") or {} for tree in (pod, container))
        context = {**of_pod, **{name: value for name, value in of_container.items() if value is not None}}
        if context.get("runAsNonRoot") and context.get("runAsUser") == 0 and not options.pod_security:  # JC4525
            because = "the kubelet would not start the container, and the pod would stay in CreateContainerConfigError"
            if "runAsUser" in of_container:
                field = f"{key}.securityContext.runAsUser"
            else:
                field = "backend.run_as_user" if options.run_as_user == 0 else f"{SPEC}.securityContext.runAsUser"
            yield Diagnostic("JC4550", f"{field}=0 together with runAsNonRoot", because, f"{field}=1000", key=field)


def check_duplicate_mount_path(pod: Tree, options: KubernetesOptions) -> Iterator[Diagnostic]:
    """JC4550: two mounts at the same path in a container.

    Source: Kubernetes 1.37, ValidateVolumeMounts ("must be unique") in pkg/apis/core/validation/validation.go.
    """
    for container, key in containers_and_keys(pod):
        owners: dict[str, str] = {}
        for mount in container.get("volumeMounts") or ():
            path, name = normalize_path(str(mount.get("mountPath", ""))), mount["name"]
            is_in_ours = container["name"] == CONTAINER and is_jobc_path(path) and (name, path) not in OURS
            if path in owners or is_in_ours:
                because = f"{owners.get(path, 'jobc')} uses {path}, and a container can have only one volume at a path"
                if is_in_ours:
                    because = f"{OWN} is reserved for jobc's scripts and the unpacked artifact"
                mount_key = f"{key}.volumeMounts.{name}"
                hint = f"{mount_key}.mountPath=/{name}" if f"/{name}" not in owners else f"remove {mount_key}"
                yield Diagnostic("JC4550", f"{mount_key}: {path} is taken", because, hint, key=mount_key)
            owners.setdefault(path, name)


def check_request_exceeds_limit(pod: Tree, options: KubernetesOptions) -> Iterator[Diagnostic]:
    """JC4550: a request that exceeds its limit or, for a device, differs from it."""
    for container, key in containers_and_keys(pod):
        resources, field = container.get("resources") or {}, f"{key}.resources.limits"
        limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
        for name, request in conflicting_requests(requests, limits):
            if name in limits:
                relation = "less than" if name in SHARED else "not"
                title = f"{field}: {name} {limits[name]} is {relation} the request of {request}"
                because = "the API server would reject the job"
            else:
                title = f"{field} has no {name}"
                because = f"the request is {request}, and the limit of a device must equal its request"
            yield Diagnostic("JC4550", title, because, f"{field}={{{name}: {request}}}", key=field)
