"""Check that this node has the fabric of a network profile, and make NCCL use only this fabric.

Source: NCCL 2.28 user guide, environment variables; RCCL 7 reads the same ones; aws-ofi-nccl 1.16.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from .. import exit_codes
from ..system.failure import Failure

ROOT = Path("/")
PLUGIN_FOLDERS = ("lib", "lib64", "usr/lib", "usr/lib64", "usr/local/lib", "usr/local/lib64")
PLUGIN_FILES = ("libnccl-net.so", "librccl-net.so", "libnccl-net-ofi.so")  # NCCL's, RCCL's; the last is aws-ofi-nccl's
# The plugin's names, for NCCL_NET: aws-ofi-nccl dropped "AWS" in 1.13.
PLUGIN_NAMES = {"efa": ("AWS Libfabric", "Libfabric"), "slingshot": ("AWS Libfabric", "Libfabric"),
                "tcpx": ("GPUDirectTCPX_v7",)}  # fmt: skip


def fabric_variables(profile: str, interface: str, environ: Mapping[str, str], root: Path = ROOT) -> dict[str, str]:
    """Return the variables that make NCCL use only the profile's fabric. Raises Failure if this node lacks it.

    root: folder that contains sys, dev and usr.
    """
    if profile == "infiniband":
        return _rdma_variables(profile, "InfiniBand", root)
    if profile == "roce":
        return _rdma_variables(profile, "Ethernet", root)
    if profile == "efa":
        if not any(port.driver == "efa" for port in rdma_ports(root)):
            hint = "use an instance type with EFA and an interface of type efa; or network=ethernet"
            raise _profile_failure(profile, "no EFA adapter", hint)
        _require_verbs(profile, root)
        return _plugin_variables(profile, environ, root)
    if profile == "slingshot":
        if not list(root.glob("dev/cxi*")):
            raise _profile_failure(
                profile, "no /dev/cxi*", "in a container: bind-mount these devices; or network=ethernet"
            )
        return _plugin_variables(profile, environ, root)
    assert profile == "tcpx", profile
    return _plugin_variables(profile, environ, root) | _tcpx_variables(interface, root)


class RdmaPort(NamedTuple):
    """One port of an RDMA adapter. link: InfiniBand, Ethernet or Unspecified; state: for example `4: ACTIVE`."""

    device: str
    number: str
    link: str
    state: str
    driver: str

    @property
    def is_active(self) -> bool:
        return "ACTIVE" in self.state


def rdma_ports(root: Path = ROOT) -> list[RdmaPort]:
    """Return all of this node's RDMA ports, from sysfs (Linux: Documentation/ABI/stable/sysfs-class-infiniband)."""
    ports = []
    for folder in sorted(root.glob("sys/class/infiniband/*/ports/*")):
        device = folder.parents[1]
        link, state = ((folder / name).read_text().strip() for name in ("link_layer", "state"))
        driver = (device / "device/driver").resolve().name
        ports.append(RdmaPort(device.name, folder.name, link, state, driver))
    return ports


def _rdma_variables(profile: str, link: str, root: Path) -> dict[str, str]:
    ports = rdma_ports(root)
    usable = [port for port in ports if port.link == link and port.is_active]
    if not usable:
        summary = ", ".join(f"{p.device} port {p.number} is {p.link}, {p.state}" for p in ports) or "no adapter at all"
        hint = "`ibstat` shows the links; or network=ethernet, which is far slower"
        raise _profile_failure(profile, f"no active {link} port ({summary})", hint)
    _require_verbs(profile, root)
    if len(usable) == len([port for port in ports if port.is_active]):
        return {}  # NCCL uses every active port
    # NCCL gives up when adapters of both kinds are active ("use only one link type", net_ib/connect.cc of 2.28)
    return {"NCCL_IB_HCA": "=" + ",".join(f"{port.device}:{port.number}" for port in usable)}


def _require_verbs(profile: str, root: Path) -> None:
    devices = list(root.glob("dev/infiniband/uverbs*"))
    if not any(os.access(device, os.R_OK | os.W_OK) for device in devices):
        hint = "in a container: bind-mount /dev/infiniband; otherwise load the module ib_uverbs"
        raise _profile_failure(profile, "no /dev/infiniband/uverbs* that this user can open", hint)


def _plugin_variables(profile: str, environ: Mapping[str, str], root: Path) -> dict[str, str]:
    """Return NCCL_NET with the plugin's name, so that NCCL fails instead of using TCP if the plugin does not load."""
    for file in _nccl_plugin_files(environ, root):
        content = file.read_bytes()
        for name in PLUGIN_NAMES[profile]:
            if f"\0{name}\0".encode() in content:
                by_name = {"NCCL_NET_PLUGIN": "ofi"} if file.name == "libnccl-net-ofi.so" else {}
                return {"NCCL_NET": name, **by_name}
    hint = "add the plugin's folder: env.LD_LIBRARY_PATH=/opt/amazon/ofi-nccl/lib, or load the module that does so"
    raise _profile_failure(profile, f"no NCCL plugin for {PLUGIN_NAMES[profile][-1]} in the library path", hint)


def _nccl_plugin_files(environ: Mapping[str, str], root: Path) -> Iterator[Path]:
    """Yield libnccl-net.so and similar files in the dynamic linker's folders (ld.so(8))."""
    folders = [Path(folder) for folder in environ.get("LD_LIBRARY_PATH", "").split(":") if folder]
    for file in sorted(root.glob("etc/ld.so.conf.d/*.conf")):
        lines = file.read_text(errors="replace").splitlines()
        folders += [root / line.strip().lstrip("/") for line in lines if line.startswith("/")]
    folders += [folder for part in PLUGIN_FOLDERS for folder in (root / part, *root.glob(f"{part}/*-linux-gnu"))]
    return (folder / name for folder in folders for name in PLUGIN_FILES if (folder / name).is_file())


def _tcpx_variables(control: str, root: Path) -> dict[str, str]:
    """Return NCCL's variables for TCPX. Every gVNIC serves GPUs except `control`, which leads to the other nodes."""
    cards = [
        card.name
        for card in sorted(root.glob("sys/class/net/*"), key=lambda card: str((card / "device").resolve()))
        if (card / "device/driver").resolve().name == "gve" and card.name != control
    ]
    if not cards:
        raise _profile_failure(
            "tcpx", f"no gVNIC besides {control}", "use a3-highgpu-8g with its four networks for GPUs"
        )
    return {"NCCL_GPUDIRECTTCPX_CTRL_DEV": control, "NCCL_GPUDIRECTTCPX_SOCKET_IFNAME": ",".join(cards)}


def _profile_failure(profile: str, problem: str, hint: str) -> Failure:
    return Failure(f"network={profile}, but this node has {problem}", hint, exit_codes.DATA_BROKEN)
