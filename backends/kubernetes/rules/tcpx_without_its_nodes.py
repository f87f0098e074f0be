"""JC4518: TCPX without the networks, the GPUs or the pods that it needs."""

from __future__ import annotations

from collections.abc import Iterator

from ....compiler.diagnostics.diagnostic import Diagnostic
from ....compiler.plan.launch_plan import LaunchPlan
from .. import tcpx
from ..options import KubernetesOptions


def check(plan: LaunchPlan, options: KubernetesOptions) -> Iterator[Diagnostic]:
    if plan.network.profile != "tcpx":
        return
    if len(options.gke_networks) != tcpx.NETWORKS:
        title = f"network=tcpx needs {tcpx.NETWORKS} networks of the cluster, not {len(options.gke_networks)}"
        because = "each card of the GPUs has its own; `kubectl get networks.networking.gke.io` lists them"
        hint = "backend.gke_networks=[vpc1,vpc2,vpc3,vpc4]"
        yield Diagnostic("JC4518", title, because, hint, key="backend.gke_networks")
    if plan.topology.gpus != tcpx.GPUS:
        because = "the cards are those of a3-highgpu-8g, of which a pod takes all GPUs"
        hint = f"gpus={tcpx.GPUS}, or network=auto"
        yield Diagnostic("JC4518", f"network=tcpx with {plan.topology.gpus} GPUs on a node", because, hint, key="gpus")
    if options.host_network:
        because = "GKE gives a pod the networks of the cards, which one on the host network has not"
        hint = "backend.host_network=false"
        yield Diagnostic("JC4518", "network=tcpx on the host network", because, hint, key="backend.host_network")
