"""What the Pod Security admission rejects at the level `restricted`, with its own messages.

Source: Kubernetes v1.36, pod-security-admission/policy/check_*.go; "Pod Security Standards".
"""

from __future__ import annotations

from .store import Object

VOLUMES = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"}


def beyond_restricted(spec: Object) -> list[str]:
    """Return the violations; [] if a pod passes."""
    pod = spec.get("securityContext", {})
    everyone = [*spec.get("initContainers", ()), *spec["containers"]]
    contexts = [container.get("securityContext", {}) for container in everyone]
    capabilities = [context.get("capabilities", {}) for context in contexts]
    kinds = {kind for volume in spec.get("volumes", ()) for kind in volume} - {"name"}
    profiles = [context.get("seccompProfile", pod.get("seccompProfile", {})).get("type") for context in contexts]
    armors = [context.get("appArmorProfile", {}).get("type", "RuntimeDefault") for context in (pod, *contexts)]
    linux = [context.get("seLinuxOptions", {}) for context in (pod, *contexts)]
    checks = {
        "host namespaces": not any(spec.get(name) for name in ("hostNetwork", "hostPID", "hostIPC")),
        "restricted volume types": kinds <= VOLUMES,
        "privileged": not any(context.get("privileged") for context in contexts),
        "allowPrivilegeEscalation != false": all(c.get("allowPrivilegeEscalation") is False for c in contexts),
        "unrestricted capabilities": all(
            "ALL" in each.get("drop", ()) and {*each.get("add", ())} <= {"NET_BIND_SERVICE"} for each in capabilities
        ),
        "runAsNonRoot != true": all(c.get("runAsNonRoot", pod.get("runAsNonRoot")) is True for c in contexts),
        "runAsUser=0": not any(context.get("runAsUser") == 0 for context in (pod, *contexts)),
        "seccompProfile": all(profile in ("RuntimeDefault", "Localhost") for profile in profiles),
        "forbidden AppArmor profiles": all(armor in ("RuntimeDefault", "Localhost") for armor in armors),
        "seLinuxOptions": not any(o.get("user") or o.get("role") or "spc" in o.get("type", "") for o in linux),
        "procMount": all(context.get("procMount", "Default") == "Default" for context in contexts),
        "hostPort": not any(port.get("hostPort") for each in everyone for port in each.get("ports", ())),
        "forbidden sysctls": not pod.get("sysctls"),
    }
    return [name for name, is_good in checks.items() if not is_good]
