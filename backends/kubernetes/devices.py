"""The device plugin resource that provides a pod's network cards.

In:  the plan and the options.
Out: NAME:COUNT from backend.network_resource. If that is unset, NAME:COUNT is derived for `network=efa` on a whole AWS
     machine; otherwise, the result is None.
Source: Amazon EC2 User Guide, network cards of accelerated instances (2026): p4d and p4de have 4, p5.48xlarge 32,
p6-b200.48xlarge 8. There are two kinds of H200 machines: p5e with 32 and p5en with 16. The resource's name comes from
aws-efa-k8s-device-plugin.
"""

from ...compiler.plan.launch_plan import LaunchPlan
from ...runtime.system.gpus import is_gpu_of_type
from .options import KubernetesOptions

RDMA_PROFILES = ("infiniband", "roce", "efa")
EFA = "vpc.amazonaws.com/efa"
EFA_GPUS = 8  # GPUs in a whole machine
EFA_CARDS = {"A100": 4, "H100": 32, "B200": 8}


def network_resource(plan: LaunchPlan, options: KubernetesOptions) -> str | None:
    gpu_type = plan.resources.gpu_type
    if options.network_resource is not None or plan.network.profile != "efa" or gpu_type is None:
        return options.network_resource
    cards = [count for kind, count in EFA_CARDS.items() if is_gpu_of_type(gpu_type, kind)]
    is_whole_node = plan.topology.gpus == EFA_GPUS and not options.host_network
    return f"{EFA}:{cards[0]}" if cards and is_whole_node else None
