"""network.py: which interface is used, and whether the profile's fabric exists, on a fake /sys."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from jobc.runtime import exit_codes
from jobc.runtime.network import fabric, interfaces, network
from jobc.runtime.network.network import choose_interface, fabric_variables, socket_variables
from jobc.runtime.system.failure import Failure

NODE = os.uname().nodename


class Machine:
    """The folders sys, dev, etc and usr of a node, below `root`."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def file(self, path: str, content: str | bytes = "") -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        return file

    def port(self, device: str, link: str, state: str = "4: ACTIVE", driver: str = "mlx5_core") -> None:
        self.file(f"sys/class/infiniband/{device}/ports/1/link_layer", f"{link}\n")
        self.file(f"sys/class/infiniband/{device}/ports/1/state", f"{state}\n")
        self.driver(f"sys/class/infiniband/{device}/device", driver)
        self.file("dev/infiniband/uverbs0")

    def driver(self, device: str, driver: str) -> None:
        place = self.root / device
        place.mkdir(parents=True, exist_ok=True)
        (place / "driver").symlink_to(self.root / "drivers" / driver)

    def fabric(self, profile: str, interface: str = "eth0", **environ: str) -> dict[str, str]:
        return fabric.fabric_variables(profile, interface, environ, self.root)

    def refusal(self, profile: str) -> str:
        with pytest.raises(Failure) as refused:
            self.fabric(profile)
        assert refused.value.code == exit_codes.DATA_BROKEN and refused.value.hint
        return refused.value.title


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.mark.parametrize("profile", ["infiniband", "roce", "efa", "slingshot", "tcpx"])
def test_a_node_without_the_promised_fabric_is_refused(machine: Machine, profile: str) -> None:
    assert machine.refusal(profile).startswith(f"network={profile}, but this node has no ")


@pytest.mark.parametrize("profile", ["auto", "ethernet"])
def test_profiles_that_promise_no_fabric_ask_for_none(profile: str) -> None:
    assert fabric_variables(profile, "eth0") == {}


def test_infiniband_wants_an_active_port_of_infiniband(machine: Machine) -> None:
    machine.port("mlx5_0", "InfiniBand", "1: DOWN")
    machine.port("mlx5_1", "Ethernet")
    seen = "mlx5_0 port 1 is InfiniBand, 1: DOWN, mlx5_1 port 1 is Ethernet, 4: ACTIVE"
    assert machine.refusal("infiniband") == f"network=infiniband, but this node has no active InfiniBand port ({seen})"
    assert machine.fabric("roce") == {}


def test_where_both_kinds_are_active_nccl_is_told_which(machine: Machine) -> None:
    for device, link in [("mlx5_0", "InfiniBand"), ("mlx5_1", "Ethernet"), ("mlx5_2", "InfiniBand")]:
        machine.port(device, link)
    assert machine.fabric("infiniband") == {"NCCL_IB_HCA": "=mlx5_0:1,mlx5_2:1"}
    assert machine.fabric("roce") == {"NCCL_IB_HCA": "=mlx5_1:1"}


def test_a_container_without_the_device_files_is_refused(machine: Machine) -> None:
    machine.port("mlx5_0", "InfiniBand")
    (machine.root / "dev/infiniband/uverbs0").unlink()
    assert "no /dev/infiniband/uverbs*" in machine.refusal("infiniband")


@pytest.mark.parametrize("name", ["AWS Libfabric", "Libfabric"])
def test_nccl_net_is_what_the_plugin_calls_itself(machine: Machine, name: str) -> None:
    machine.port("rdmap0s6", "Unspecified", driver="efa")
    assert "no NCCL plugin" in machine.refusal("efa")
    plugin = machine.file("opt/ofi/lib/libnccl-net.so", b"\x7fELF..\0" + name.encode() + b"\0..")
    assert machine.fabric("efa", LD_LIBRARY_PATH=str(plugin.parent)) == {"NCCL_NET": name}
    machine.file("etc/ld.so.conf.d/efa.conf", "# EFA\n/opt/ofi/lib\n")
    assert machine.fabric("efa") == {"NCCL_NET": name}


def test_a_plugin_under_its_own_name_is_named(machine: Machine) -> None:
    machine.file("dev/cxi0")
    machine.file("usr/lib/x86_64-linux-gnu/libnccl-net-ofi.so", b"\0Libfabric\0")
    assert machine.fabric("slingshot") == {"NCCL_NET": "Libfabric", "NCCL_NET_PLUGIN": "ofi"}


def test_tcpx_uses_the_cards_beside_the_one_to_the_other_nodes(machine: Machine) -> None:
    machine.file("usr/local/lib/libnccl-net.so", b"\0GPUDirectTCPX_v7\0")
    assert "no gVNIC besides eth0" in machine.refusal("tcpx")
    for card in ("eth0", "eth1", "eth2"):
        machine.driver(f"sys/class/net/{card}/device", "gve")
    machine.driver("sys/class/net/docker0/device", "bridge")
    assert machine.fabric("tcpx") == {
        "NCCL_NET": "GPUDirectTCPX_v7",
        "NCCL_GPUDIRECTTCPX_CTRL_DEV": "eth0",
        "NCCL_GPUDIRECTTCPX_SOCKET_IFNAME": "eth1,eth2",
    }


def test_nccl_and_gloo_get_the_interface_each_in_its_syntax() -> None:
    assert socket_variables("ib0") == {"NCCL_SOCKET_IFNAME": "=ib0", "GLOO_SOCKET_IFNAME": "ib0"}


def test_a_name_that_means_this_machine_only_is_refused_but_on_the_head(monkeypatch: pytest.MonkeyPatch) -> None:
    place = (socket.AF_INET, socket.SOCK_DGRAM, 0, "", ("127.0.1.1", 9))  # as Debian's /etc/hosts has it
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [place])
    if (default := interfaces.interface_of_default_route()) is not None:
        assert choose_interface("", "node1", is_head=True) == default
    with pytest.raises(Failure, match=r"node1, the name of node 0, resolves to 127\.0\.\d\.1 here") as refused:
        choose_interface("", "node1", is_head=False)
    assert refused.value.code == exit_codes.RENDEZVOUS_FAILED


def test_nodes_on_one_machine_talk_over_loopback() -> None:
    assert choose_interface("", "127.0.0.1", is_head=False) == choose_interface("", "localhost", is_head=True) == "lo"


def test_a_name_that_does_not_resolve_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOBC_NODE_RANK", "1")
    with pytest.raises(Failure) as lacking:
        network.nccl_and_gloo_variables("auto", "", 0, "no-such-host.invalid", 0)
    assert lacking.value.code == exit_codes.RENDEZVOUS_FAILED
    assert "cannot reach node 0, no-such-host.invalid" in lacking.value.title and lacking.value.hint


def test_the_default_route_of_the_least_metric_counts(tmp_path: Path) -> None:
    table = tmp_path / "route"
    head = "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT\n"
    lan = "eth1 0000A8C0 00000000 0001 0 0 100 00FFFFFF 0 0 0\n"
    table.write_text(f"{head}wlan0 00000000 0100A8C0 0003 0 0 600 00000000 0 0 0\n{lan}")
    assert interfaces.interface_of_default_route(table) == "wlan0"
    table.write_text(f"{table.read_text()}eth1 00000000 0100A8C0 0003 0 0 100 00000000 0 0 0\n")
    assert interfaces.interface_of_default_route(table) == "eth1"
    table.write_text(head + lan)
    assert interfaces.interface_of_default_route(table) == "eth1"
    table.write_text(f"{head}{lan}eth2 0000000A 00000000 0001 0 0 100 000000FF 0 0 0\n")
    assert interfaces.interface_of_default_route(table) is None
