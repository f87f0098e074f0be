"""GPUs and network devices: JC4505, JC4510, JC4518, JC4521."""

import re
from collections.abc import Iterator

from ....compiler.diagnostics.diagnostic import Diagnostic, Severity, nearest
from ....compiler.plan.launch_plan import LaunchPlan
from ....runtime.system.gpus import is_gpu_of_type
from ..._shared.gpus import MOST_GPUS, USUAL_GPUS, gpu_spread_overrides, max_gpus_at_site, max_gpus_in_cloud
from .. import tcpx
from ..devices import EFA, EFA_CARDS, EFA_GPUS, RDMA_PROFILES, is_resource_with_count, network_resource
from ..gpu_types import DISCOVERED, PRODUCTS, gpu_label_name, gpu_label_values
from ..options import KubernetesOptions


def check_gpu_type_without_label(plan: LaunchPlan, options: KubernetesOptions) -> Iterator[Diagnostic]:
    """JC4521: a GPU type that matches none of the node label's known values (gpu_types.py)."""
    requested, key = plan.resources.gpu_type, gpu_label_name(options)
    if requested is not None and not gpu_label_values(plan, options):
        mapped = f"backend.gpu_labels.{requested}=[VALUE] with a value that `kubectl get nodes -L {key}` shows"
        near = nearest(requested.upper(), _types(key))
        others = ((resource, PRODUCTS[label_key].split()) for resource, label_key in DISCOVERED.items())
        vendors = [resource for resource, products in others if any(is_gpu_of_type(p, requested) for p in products)]
        similar = [product for product in PRODUCTS[key].split() if near and is_gpu_of_type(product, near[0])]
        example = f", such as {similar[-1]}" if similar else ""
        because = f"the label {key} uses product names{example}, so the pods would stay Pending"
        hint = f"gpu_type={near[0]}, or {mapped}" if near else mapped
        hint = f"backend.gpu_resource={vendors[0]}" if vendors and options.gpu_label is None else hint
        yield Diagnostic("JC4521", f"gpu_type={requested} matches no known node label", because, hint, key="gpu_type")


def _types(key: str) -> list[str]:
    """Return GPU types such as H100: those words in product names that are letters followed by digits."""
    words = {part.upper() for product in PRODUCTS[key].split() for part in re.split(r"[-_]", product)}
    return sorted(word for word in words if re.fullmatch(r"(?!SXM|NVL|HBM|MI325$|MI355$)[A-Z]+\d+[A-Z]?", word))


def check_gpus_exceed_node(plan: LaunchPlan, options: KubernetesOptions) -> Iterator[Diagnostic]:
    """JC4505: more GPUs per node than any machine has (error) or than most machines have (warning)."""
    count, kind = plan.topology.gpus, plan.resources.gpu_type
    most = (max_gpus_at_site(kind) if kind else None) or MOST_GPUS
    usual = min(USUAL_GPUS, (max_gpus_in_cloud(kind) if kind else None) or USUAL_GPUS)
    if count <= usual:
        return
    of = f" of type {kind}" if kind else ""
    rare = count <= most
    some = f"few machines have more than {usual}{of}" if rare else f"no machine has more than {most}{of}"
    because = f"{some}, and pods that do not fit on any node stay Pending; gpus is per node, 1 to {usual}"
    hint = gpu_spread_overrides(count, plan.topology.nodes, usual)
    severity = Severity.WARNING if rare else Severity.ERROR
    title = f"gpus={count}{of} is too many for one node"
    yield Diagnostic("JC4505", title, because, hint, key="gpus", severity=severity)


def check_network_devices_not_requested(plan: LaunchPlan, options: KubernetesOptions) -> Iterator[Diagnostic]:
    """JC4510: network devices that the pods do not receive, because no resource requests them."""
    resource, key = options.network_resource, "backend.network_resource"
    if resource is not None and not is_resource_with_count(resource):
        because = "the value must be the name of a device plugin's resource and a count per pod"
        yield Diagnostic("JC4510", f"{key}: {resource!r} is not NAME:COUNT", because, f"{key}=rdma/hca:1", key=key)
    fabric = plan.network.profile
    if network_resource(plan, options) is None and fabric in RDMA_PROFILES and not options.host_network:
        because = f"a pod gets network={fabric} devices only by requesting a resource; otherwise NCCL uses TCP"
        example = f"{EFA}:32" if fabric == "efa" else "rdma/hca_shared_devices_a:1"
        hint = f"{key}={example}; `kubectl describe node` shows the name and number"
        if fabric == "efa" and plan.topology.gpus == EFA_GPUS and plan.resources.gpu_type is None:
            hint = f"gpu_type=H100, whose machines have {EFA_CARDS['H100']} EFA cards, or {hint}"
        title = "backend.network_resource is not set, so the pods have no network devices"
        yield Diagnostic("JC4510", title, because, hint, key=key)


def check_tcpx_requirements(plan: LaunchPlan, options: KubernetesOptions) -> Iterator[Diagnostic]:
    """JC4518: network=tcpx without networks for the cards, with the wrong number of GPUs, or on the host network."""
    if plan.network.profile != "tcpx":
        return
    if len(options.gke_networks) != tcpx.NETWORKS:
        title = f"network=tcpx needs {tcpx.NETWORKS} cluster networks, not {len(options.gke_networks)}"
        because = (
            "each GPU network card has its own network; `kubectl get networks.networking.gke.io` lists the networks"
        )
        hint = "backend.gke_networks=[vpc1,vpc2,vpc3,vpc4]"
        yield Diagnostic("JC4518", title, because, hint, key="backend.gke_networks")
    if plan.topology.gpus != tcpx.GPUS:
        because = "TCPX needs a3-highgpu-8g machines, with all their GPUs in one pod"
        hint = f"gpus={tcpx.GPUS}, or network=auto"
        yield Diagnostic("JC4518", f"network=tcpx with {plan.topology.gpus} GPUs on a node", because, hint, key="gpus")
    if options.host_network:
        because = "GKE attaches the card networks to the pod, which does not work on the host network"
        hint = "backend.host_network=false"
        title = "network=tcpx does not work on the host network"
        yield Diagnostic("JC4518", title, because, hint, key="backend.host_network")
