"""JC4522: DNS settings that prevent pods from resolving node 0, whose name is relative to a search domain.

Source: Kubernetes 1.37, "DNS for Services and Pods"
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from .....compiler.diagnostics.diagnostic import Diagnostic
from .....compiler.plan.launch_plan import LaunchPlan
from ...extra import KEY, POD
from ...options import KubernetesOptions
from ._extra_fields import extra_pod_spec

EXAMPLE = "nameservers=[10.96.0.10] and dnsConfig.searches=[NAMESPACE.svc.cluster.local]"
_SPEC = f"{KEY}.{POD}.spec"


def check(plan: LaunchPlan, options: KubernetesOptions) -> Iterator[Diagnostic]:
    spec = extra_pod_spec(options)
    if "dnsPolicy" not in spec:
        return
    policy, config = spec["dnsPolicy"] or "ClusterFirst", spec.get("dnsConfig")
    dns_config = config if isinstance(config, Mapping) else {}
    key = f"{_SPEC}.dnsPolicy"
    hint = f"{_SPEC}.dnsConfig.searches=[example.org], in addition to the cluster's names"
    if policy == "Default":
        because = "the pods find node 0 through the cluster's DNS, which the node's own resolver does not use"
    elif policy == "ClusterFirst" and options.host_network:
        because = "on the host network, this selects the node's own resolver, which cannot resolve node 0's name"
        hint = f"{key}=ClusterFirstWithHostNet, the default"
    elif policy == "None" and not (dns_config.get("nameservers") and dns_config.get("searches")):
        because = "in that case, dnsConfig must set the nameservers and searches that resolve node 0"
        hint = f"remove it, or also set dnsConfig.{EXAMPLE}"
    else:
        return
    yield Diagnostic("JC4522", f"{key} would break the job", because, hint, key=key)
