"""JC4510: network devices that the pods do not get, because no resource requests them."""

from __future__ import annotations

from collections.abc import Iterator

from ....compiler.diagnostics.diagnostic import Diagnostic
from ....compiler.plan.launch_plan import LaunchPlan
from ..devices import EFA, EFA_CARDS, EFA_GPUS, RDMA_PROFILES, is_resource, network_resource
from ..options import KubernetesOptions


def check(plan: LaunchPlan, options: KubernetesOptions) -> Iterator[Diagnostic]:
    resource, key = options.network_resource, "backend.network_resource"
    if resource is not None and not is_resource(resource):
        because = "it must be a device plugin's resource and a number per pod"
        yield Diagnostic("JC4510", f"{key}: {resource!r} is not NAME:COUNT", because, f"{key}=rdma/hca:1", key=key)
    fabric = plan.network.profile
    if network_resource(plan, options) is None and fabric in RDMA_PROFILES and not options.host_network:
        because = f"a pod gets network={fabric} devices only by requesting a resource; otherwise NCCL uses TCP"
        example = f"{EFA}:32" if fabric == "efa" else "rdma/hca_shared_devices_a:1"
        hint = f"{key}={example}; `kubectl describe node` shows the name and number"
        if fabric == "efa" and plan.topology.gpus == EFA_GPUS and plan.resources.gpu_type is None:
            hint = f"gpu_type=H100, whose machines have {EFA_CARDS['H100']} EFA cards, or {hint}"
        yield Diagnostic(
            "JC4510", "backend.network_resource is not set, so the pods have no network devices", because, hint, key=key
        )
