"""The network devices of a pod: a device plugin's resource, or GPUDirect-TCPX on GKE (network=tcpx).

With TCPX, a pod on a3-highgpu-8g needs a daemon that configures the cards, the daemon's socket, the node's NCCL plugin,
and the cards' four networks. The daemon is a sidecar: an init container that keeps running and ends after the other
containers (Kubernetes 1.29 or newer).
Source: Amazon EC2 User Guide, network cards of accelerated instances (2026): p4d and p4de have 4, p5.48xlarge 32,
p6-b200.48xlarge 8. There are two kinds of H200 machines: p5e with 32 and p5en with 16. The resource's name comes from
aws-efa-k8s-device-plugin. TCPX: GKE manual, "Maximize GPU network bandwidth in Standard mode clusters" (A3 High).
Clusters set up that way run the DaemonSets nccl-tcpx-installer and nri-device-injector from
GoogleCloudPlatform/container-engine-accelerators.
"""

import json
from typing import Any

from ...compiler.api import LaunchPlan, of
from ...runtime.system.gpus import is_gpu_of_type
from .options import KubernetesOptions

RDMA_PROFILES = ("infiniband", "roce", "efa")
EFA = "vpc.amazonaws.com/efa"
EFA_GPUS = 8  # GPUs in a whole machine
EFA_CARDS = {"A100": 4, "H100": 32, "B200": 8}

TCPX_DAEMON = "tcpx-daemon"
TCPX_GPUS = 8
TCPX_NETWORKS = 4
TCPX_LIBRARIES = "/usr/local/nvidia/lib64"
_DEVICES = (*(f"nvidia{i}" for i in range(TCPX_GPUS)), "nvidiactl", "nvidia-uvm")
_FOLDERS = {"libraries": "/home/kubernetes/bin/nvidia/lib64", "sys": "/sys", "proc-sys": "/proc/sys"}


def network_resource(plan: LaunchPlan, options: KubernetesOptions) -> str | None:
    """Return NAME:COUNT from backend.network_resource, or for `network=efa` on a whole AWS machine."""
    gpu_type = plan.resources.gpu_type
    if options.network_resource is not None or plan.network.profile != "efa" or gpu_type is None:
        return options.network_resource
    cards = [count for kind, count in EFA_CARDS.items() if is_gpu_of_type(gpu_type, kind)]
    is_whole_node = plan.topology.gpus == EFA_GPUS and not options.host_network
    return f"{EFA}:{cards[0]}" if cards and is_whole_node else None


def tcpx_annotations() -> dict[str, Any]:
    """Return the pod's TCPX annotations: the daemon's devices, and one cluster network per card."""

    def interface_list(v: Any) -> str:
        names = ("default", *v.options.gke_networks)
        return json.dumps([{"interfaceName": f"eth{i}", "network": name} for i, name in enumerate(names)])

    return {
        f"devices.gke.io/container.{TCPX_DAEMON}": "".join(f"- path: /dev/{name}\n" for name in _DEVICES),
        "networking.gke.io/default-interface": "eth0",
        "networking.gke.io/interfaces": interface_list,
    }


def tcpx_daemon_container() -> dict[str, Any]:
    program = "/tcpgpudmarxd/build/app/tcpgpudmarxd"
    preset = ["--gpu_nic_preset", "a3vm", "--gpu_shmem_type", "fd", "--uds_path", "/run/tcpx"]
    return {
        "name": TCPX_DAEMON,
        "image": of.options.tcpx_daemon,
        "restartPolicy": "Always",
        "command": [program, *preset, "--setup_param", "--verbose 128 2 0"],
        "env": [{"name": "LD_LIBRARY_PATH", "value": TCPX_LIBRARIES}],
        "securityContext": {"capabilities": {"add": ["NET_ADMIN"]}},
        "volumeMounts": [
            *tcpx_volume_mounts(),
            {"name": "sys", "mountPath": "/hostsysfs"},
            {"name": "proc-sys", "mountPath": "/hostprocsysfs"},
        ],
    }


def tcpx_volumes() -> list[dict[str, Any]]:
    folders = [{"name": name, "hostPath": {"path": path}} for name, path in _FOLDERS.items()]
    return [{"name": "tcpx-socket", "emptyDir": {}}, *folders]


def tcpx_volume_mounts() -> list[dict[str, Any]]:
    """Return the volume mounts that the daemon and the ranks share."""
    return [{"name": "libraries", "mountPath": TCPX_LIBRARIES}, {"name": "tcpx-socket", "mountPath": "/run/tcpx"}]
