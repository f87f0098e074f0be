"""JC4550: root where the pod says that nobody is root.

Source: Kubernetes 1.37, verifyRunAsNonRoot in pkg/kubelet/kuberuntime/security_context_others.go, after which the pod
stays in CreateContainerConfigError
"""

from __future__ import annotations

from collections.abc import Iterator

from .....compiler.diagnostics.diagnostic import Diagnostic
from ...options import KubernetesOptions
from ._containers import SPEC, Tree, containers


def check(pod: Tree, options: KubernetesOptions) -> Iterator[Diagnostic]:
    for container, key in containers(pod):
        of_pod, own = (each.get("securityContext") or {} for each in (pod, container))
        context = {**of_pod, **{name: value for name, value in own.items() if value is not None}}
        if context.get("runAsNonRoot") and context.get("runAsUser") == 0:
            because = "the kubelet would not start it, and the pod waits in CreateContainerConfigError"
            if "runAsUser" in own:
                here = f"{key}.securityContext.runAsUser"
            else:
                here = "backend.run_as_user" if options.run_as_user == 0 else f"{SPEC}.securityContext.runAsUser"
            yield Diagnostic("JC4550", f"{here}=0 beside runAsNonRoot", because, f"{here}=1000", key=here)
