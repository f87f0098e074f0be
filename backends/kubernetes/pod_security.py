"""`backend.pod_security=restricted`: what it adds to each pod and container, and what it forbids.

Source: Kubernetes 1.37, "Pod Security Standards", profiles Baseline and Restricted.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from .options import KubernetesOptions

POD = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
CONTAINER = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
CONTAINER_KINDS = ("initContainers", "containers")
VOLUMES = (
    "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret",
)  # fmt: skip
PROFILES = ("RuntimeDefault", "Localhost")
SELINUX = (None, "", "container_t", "container_init_t", "container_kvm_t", "container_engine_t")
SYSCTLS = (
    "kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.tcp_syncookies", "net.ipv4.ping_group_range", "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes", "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem",
)  # fmt: skip
HANDLERS = ("livenessProbe", "readinessProbe", "startupProbe")


def add_security_contexts(spec: dict[str, Any], options: KubernetesOptions) -> dict[str, Any]:
    """Return the pod with a security context in each container that `backend.extra` added."""
    if options.pod_security is None:
        return spec
    lists = {kind: spec[kind] for kind in CONTAINER_KINDS if isinstance(spec.get(kind), (list, tuple))}
    return {**spec, **{kind: [_add_container_context(each) for each in items] for kind, items in lists.items()}}


def _add_container_context(container: Any) -> Any:
    own = container.get("securityContext", {})
    return {**container, "securityContext": {**CONTAINER, **own}} if isinstance(own, Mapping) else container


def find_pod_security_violations(spec: Mapping[str, Any]) -> Iterator[str]:
    """Yield the field name of each setting in the finished pod that the profile forbids."""
    for field in ("hostNetwork", "hostPID", "hostIPC"):
        if spec.get(field):
            yield field
    for volume in spec.get("volumes") or ():
        yield from (f"a volume of type {kind}" for kind in volume if kind != "name" and kind not in VOLUMES)
    of_pod = spec.get("securityContext") or {}
    yield from _context(of_pod, "the pod")
    for sysctl in of_pod.get("sysctls") or ():
        if sysctl.get("name") not in SYSCTLS:
            yield f"sysctl {sysctl.get('name')}"
    for kind in CONTAINER_KINDS:
        for container in spec.get(kind) or ():
            yield from _container(container, of_pod)


def _container(container: Mapping[str, Any], of_pod: Mapping[str, Any]) -> Iterator[str]:
    own, where = container.get("securityContext") or {}, f"container {container.get('name')}"
    yield from _context(own, where)
    if own.get("privileged"):
        yield f"privileged of {where}"
    if own.get("allowPrivilegeEscalation") is not False:
        yield f"allowPrivilegeEscalation of {where}"
    capabilities = own.get("capabilities") or {}
    added = {*(capabilities.get("add") or ())} - {"NET_BIND_SERVICE"}
    yield from (f"capability {name} of {where}" for name in sorted(added))
    if "ALL" not in (capabilities.get("drop") or ()):
        yield f"capabilities of {where}, which does not drop ALL"
    if own.get("procMount", "Default") != "Default":
        yield f"procMount of {where}"
    if not own.get("runAsNonRoot", of_pod.get("runAsNonRoot")):
        yield f"runAsNonRoot of {where}"
    if (own.get("seccompProfile") or of_pod.get("seccompProfile") or {}).get("type") not in PROFILES:
        yield f"seccompProfile of {where}"
    if any(port.get("hostPort") for port in container.get("ports") or ()):
        yield f"hostPort of {where}"
    hooks = [*(container.get("lifecycle") or {}).values(), *(container.get(name) or {} for name in HANDLERS)]
    if any((hook.get(action) or {}).get("host") for hook in hooks for action in ("httpGet", "tcpSocket")):
        yield f"host in a probe or hook of {where}"


def _context(context: Mapping[str, Any], where: str) -> Iterator[str]:
    """Yield the settings that are forbidden in both a pod's and a container's security context."""
    if context.get("runAsUser") == 0:
        yield f"runAsUser=0 of {where}"
    selinux = context.get("seLinuxOptions") or {}
    if selinux.get("type") not in SELINUX or selinux.get("user") or selinux.get("role"):
        yield f"seLinuxOptions of {where}"
    if (context.get("appArmorProfile") or {}).get("type", "RuntimeDefault") not in PROFILES:
        yield f"appArmorProfile of {where}"
    if (context.get("windowsOptions") or {}).get("hostProcess"):
        yield f"hostProcess of {where}"
