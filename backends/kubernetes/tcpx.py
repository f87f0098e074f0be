"""GPUDirect-TCPX on GKE (network=tcpx): what a pod on a3-highgpu-8g needs besides its GPUs.

The pod needs a daemon that configures the cards, the daemon's socket, the node's NCCL plugin, and the cards' four
networks. The daemon is a sidecar: an init container that keeps running and ends after the other containers (Kubernetes
1.29 or newer).
Source: GKE manual, "Maximize GPU network bandwidth in Standard mode clusters" (A3 High). Clusters set up that way run
the DaemonSets nccl-tcpx-installer and nri-device-injector from GoogleCloudPlatform/container-engine-accelerators.
"""

import json
from typing import Any

from ...compiler.emit.render import of

DAEMON = "tcpx-daemon"
GPUS = 8
NETWORKS = 4
DEVICES = (*(f"nvidia{i}" for i in range(GPUS)), "nvidiactl", "nvidia-uvm")
LIBRARIES = "/usr/local/nvidia/lib64"
_FOLDERS = {"libraries": "/home/kubernetes/bin/nvidia/lib64", "sys": "/sys", "proc-sys": "/proc/sys"}


def tcpx_annotations() -> dict[str, Any]:
    """Return the pod's TCPX annotations: the daemon's devices, and one cluster network per card."""

    def interface_list(v: Any) -> str:
        names = ("default", *v.options.gke_networks)
        return json.dumps([{"interfaceName": f"eth{i}", "network": name} for i, name in enumerate(names)])

    return {
        f"devices.gke.io/container.{DAEMON}": "".join(f"- path: /dev/{name}\n" for name in DEVICES),
        "networking.gke.io/default-interface": "eth0",
        "networking.gke.io/interfaces": interface_list,
    }


def tcpx_daemon_container() -> dict[str, Any]:
    program = "/tcpgpudmarxd/build/app/tcpgpudmarxd"
    preset = ["--gpu_nic_preset", "a3vm", "--gpu_shmem_type", "fd", "--uds_path", "/run/tcpx"]
    return {
        "name": DAEMON,
        "image": of.options.tcpx_daemon,
        "restartPolicy": "Always",
        "command": [program, *preset, "--setup_param", "--verbose 128 2 0"],
        "env": [{"name": "LD_LIBRARY_PATH", "value": LIBRARIES}],
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
    return [{"name": "libraries", "mountPath": LIBRARIES}, {"name": "tcpx-socket", "mountPath": "/run/tcpx"}]
