"""JC4550: runAsUser=0 in a pod with runAsNonRoot.

Source: Kubernetes 1.37, verifyRunAsNonRoot in pkg/kubelet/kuberuntime/security_context_others.go. The pod then stays in
CreateContainerConfigError
"""

from __future__ import annotations

from collections.abc import Iterator

from .....compiler.diagnostics.diagnostic import Diagnostic
from ...options import KubernetesOptions
from ...pod_security import is_restricted
from ._containers import SPEC, Tree, containers


def check(pod: Tree, options: KubernetesOptions) -> Iterator[Diagnostic]:
    for container, key in containers(pod):
        of_pod, of_container = (tree.get("securityContext") or {} for tree in (pod, container))
        context = {**of_pod, **{name: value for name, value in of_container.items() if value is not None}}
        if context.get("runAsNonRoot") and context.get("runAsUser") == 0 and not is_restricted(options):  # JC4525
            because = "the kubelet would not start it, and the pod would stay in CreateContainerConfigError"
            if "runAsUser" in of_container:
                field = f"{key}.securityContext.runAsUser"
            else:
                field = "backend.run_as_user" if options.run_as_user == 0 else f"{SPEC}.securityContext.runAsUser"
            yield Diagnostic("JC4550", f"{field}=0 together with runAsNonRoot", because, f"{field}=1000", key=field)
