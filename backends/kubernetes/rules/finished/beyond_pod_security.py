"""JC4525: a pod that `backend.pod_security=restricted` forbids, because of the job or of `backend.extra`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .....compiler.diagnostics.diagnostic import Diagnostic
from ...options import KubernetesOptions
from ...pod_security import is_restricted, violations

KEY = "backend.pod_security"
CAUSES = {  # word of a violation -> the key to change
    "hostNetwork": "backend.host_network=false",
    "type hostPath": "mounts of kind claim, not host",
    "type nfs": "mounts of kind claim, not nfs",
    "IPC_LOCK": "network=ethernet",
    "NET_ADMIN": "network=ethernet",
    "runAsUser=0": "backend.run_as_user=1000",
}


def check(pod: Mapping[str, Any], options: KubernetesOptions) -> Iterator[Diagnostic]:
    found = list(dict.fromkeys(violations(pod))) if is_restricted(options) else []
    if found:
        changes = dict.fromkeys(change for word, change in CAUSES.items() if any(word in text for text in found))
        because = "a namespace with that Pod Security level rejects the pods, so the job would never start"
        hint = " and ".join(changes) or "remove them from backend.extra"
        title = f"{KEY}=restricted forbids {', '.join(found)}"
        yield Diagnostic("JC4525", title, because, f"{hint}; or {KEY}=null", key=KEY)
