"""`backend.pod_security=restricted`: what it adds to each pod and container, and what it forbids.

Source: Kubernetes 1.37, "Pod Security Standards", profiles Baseline and Restricted.
"""

from collections.abc import Callable, Iterator, Mapping
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
    yield from (field for field in ("hostNetwork", "hostPID", "hostIPC") if spec.get(field))
    for volume in spec.get("volumes") or ():
        yield from (f"a volume of type {kind}" for kind in volume if kind != "name" and kind not in VOLUMES)
    of_pod = spec.get("securityContext") or {}
    yield from (f"{name} of the pod" for name, is_forbidden in IN_CONTEXT.items() if is_forbidden(of_pod))
    names = (sysctl.get("name") for sysctl in of_pod.get("sysctls") or ())
    yield from (f"sysctl {name}" for name in names if name not in SYSCTLS)
    inherited = {name: of_pod[name] for name in ("runAsNonRoot", "seccompProfile") if name in of_pod}
    for kind in CONTAINER_KINDS:
        for container in spec.get(kind) or ():
            where, own = f"container {container.get('name')}", container.get("securityContext") or {}
            yield from (f"{name} of {where}" for name, is_forbidden in IN_CONTEXT.items() if is_forbidden(own))
            effective = {**inherited, **{name: value for name, value in own.items() if value is not None}}
            checks = IN_CONTAINER.items()
            yield from (f"{name} of {where}" for name, is_forbidden in checks if is_forbidden(effective))
            added = {*((own.get("capabilities") or {}).get("add") or ())} - {"NET_BIND_SERVICE"}
            yield from (f"capability {name} of {where}" for name in sorted(added))
            if any(port.get("hostPort") for port in container.get("ports") or ()):
                yield f"hostPort of {where}"
            hooks = [*(container.get("lifecycle") or {}).values(), *(container.get(name) or {} for name in HANDLERS)]
            if any((hook.get(action) or {}).get("host") for hook in hooks for action in ("httpGet", "tcpSocket")):
                yield f"host in a probe or hook of {where}"


def _has_other_selinux_options(context: Mapping[str, Any]) -> bool:
    selinux = context.get("seLinuxOptions") or {}
    return selinux.get("type") not in SELINUX or bool(selinux.get("user") or selinux.get("role"))


Check = Callable[[Mapping[str, Any]], Any]  # whether the security context violates the profile
IN_CONTEXT: Mapping[str, Check] = {  # of a pod or a container
    "runAsUser=0": lambda c: c.get("runAsUser") == 0,
    "seLinuxOptions": _has_other_selinux_options,
    "appArmorProfile": lambda c: (c.get("appArmorProfile") or {}).get("type", "RuntimeDefault") not in PROFILES,
    "hostProcess": lambda c: (c.get("windowsOptions") or {}).get("hostProcess"),
}
IN_CONTAINER: Mapping[str, Check] = {  # of a container, with what it inherits from its pod
    "privileged": lambda c: c.get("privileged"),
    "allowPrivilegeEscalation": lambda c: c.get("allowPrivilegeEscalation") is not False,
    "capabilities.drop": lambda c: "ALL" not in ((c.get("capabilities") or {}).get("drop") or ()),
    "procMount": lambda c: c.get("procMount", "Default") != "Default",
    "runAsNonRoot": lambda c: not c.get("runAsNonRoot"),
    "seccompProfile": lambda c: (c.get("seccompProfile") or {}).get("type") not in PROFILES,
}
