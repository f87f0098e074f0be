"""GPUs and network devices: JC4505, JC4510, JC4518, JC4521."""

import re
from collections.abc import Iterator

from ....compiler.api import Diagnostic, LaunchPlan, Severity, nearest
from ....runtime.system.gpus import is_gpu_of_type
from ..._shared.gpus import GPUS, MOST_GPUS, USUAL_GPUS, gpu_spread_overrides, max_gpus_at_site, max_gpus_in_cloud
from ..gpu_types import DISCOVERED, PRODUCTS, gpu_label_name, gpu_label_values
from ..network import EFA, EFA_CARDS, EFA_GPUS, RDMA_PROFILES, TCPX_GPUS, TCPX_NETWORKS, network_resource
from ..options import KubernetesOptions
from .unfit_resource import DEVICE


def check_gpu_type_without_label(plan: LaunchPlan, options: KubernetesOptions) -> Iterator[Diagnostic]:
    """JC4521: a GPU type that matches none of the node label's known values (gpu_types.py)."""
    requested, label = plan.resources.gpu_type, gpu_label_name(options)
    if requested is None or gpu_label_values(plan, options):
        return

    def has_product(label: str, gpu_type: str) -> bool:
        return any(is_gpu_of_type(product, gpu_type) for product in PRODUCTS.get(label, "").split())

    hint = f"backend.gpu_labels.{requested}=[VALUE] with a value that `kubectl get nodes -L {label}` shows"
    if near := nearest(requested.upper(), [gpu_type for gpu_type in GPUS if has_product(label, gpu_type)]):
        hint = f"gpu_type={near[0]}, or {hint}"
    for resource, its_label in DISCOVERED.items():
        if options.gpu_label is None and has_product(its_label, requested):
            hint = f"backend.gpu_resource={resource}"
    because = f"the label {label} uses product names, so the pods would stay Pending"
    yield Diagnostic("JC4521", f"gpu_type={requested} matches no known node label", because, hint, key="gpu_type")


def check_gpus_exceed_node(plan: LaunchPlan, options: KubernetesOptions) -> Iterator[Diagnostic]:
    """JC4505: more GPUs per node than any machine has (error) or than most machines have (warning)."""
    count, kind = plan.topology.gpus, plan.resources.gpu_type or ""
    most = max_gpus_at_site(kind) or MOST_GPUS
    usual = min(USUAL_GPUS, max_gpus_in_cloud(kind) or USUAL_GPUS)
    if count <= usual:
        return
    of = f" of type {kind}" if kind else ""
    some, severity = f"no machine has more than {most}{of}", Severity.ERROR
    if count <= most:
        some, severity = f"few machines have more than {usual}{of}", Severity.WARNING
    title = f"gpus={count}{of} is too many for one node"
    because = f"{some}, and pods that do not fit on any node stay Pending; gpus is per node, 1 to {usual}"
    hint = gpu_spread_overrides(count, plan.topology.nodes, usual)
    yield Diagnostic("JC4505", title, because, hint, key="gpus", severity=severity)


def check_network_devices_not_requested(plan: LaunchPlan, options: KubernetesOptions) -> Iterator[Diagnostic]:
    """JC4510: network devices that the pods do not receive, because no resource requests them."""
    resource, key = options.network_resource, "backend.network_resource"
    if resource is not None and not re.fullmatch(rf"{DEVICE}:[1-9][0-9]*", resource):
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
    if len(options.gke_networks) != TCPX_NETWORKS:
        key = "backend.gke_networks"
        title = f"network=tcpx needs {TCPX_NETWORKS} cluster networks, not {len(options.gke_networks)}"
        because = "each GPU network card has its own network; `kubectl get networks.networking.gke.io` lists them"
        yield Diagnostic("JC4518", title, because, f"{key}=[vpc1,vpc2,vpc3,vpc4]", key=key)
    if plan.topology.gpus != TCPX_GPUS:
        because = "TCPX needs a3-highgpu-8g machines, with all their GPUs in one pod"
        hint = f"gpus={TCPX_GPUS}, or network=auto"
        yield Diagnostic("JC4518", f"network=tcpx with {plan.topology.gpus} GPUs on a node", because, hint, key="gpus")
    if options.host_network:
        title, key = "network=tcpx does not work on the host network", "backend.host_network"
        because = "GKE attaches the card networks to the pod, which does not work on the host network"
        yield Diagnostic("JC4518", title, because, f"{key}=false", key=key)
