"""JC4518: network=tcpx without the cards' networks, with the wrong number of GPUs, or on the host network."""

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
        title = f"network=tcpx needs {tcpx.NETWORKS} cluster networks, not {len(options.gke_networks)}"
        because = "each GPU network card has its own network; `kubectl get networks.networking.gke.io` lists them"
        hint = "backend.gke_networks=[vpc1,vpc2,vpc3,vpc4]"
        yield Diagnostic("JC4518", title, because, hint, key="backend.gke_networks")
    if plan.topology.gpus != tcpx.GPUS:
        because = "TCPX needs a3-highgpu-8g machines, with all their GPUs in one pod"
        hint = f"gpus={tcpx.GPUS}, or network=auto"
        yield Diagnostic("JC4518", f"network=tcpx with {plan.topology.gpus} GPUs on a node", because, hint, key="gpus")
    if options.host_network:
        because = "GKE attaches the card networks to the pod, which does not work on the host network"
        hint = "backend.host_network=false"
        yield Diagnostic(
            "JC4518", "network=tcpx does not work on the host network", because, hint, key="backend.host_network"
        )
