"""JC3012: an interface that Gloo does not find, or one by which no other node is reached."""

from __future__ import annotations

import pytest

from ..diagnosed import found

HOSTS = ("backend=ssh", "hosts=[a,b]", "nodes=2")
LO = [
    "network.interface=lo",
    "network.interface=lo,eth0",
    "network.interface=eth0,lo",
    "env.NCCL_SOCKET_IFNAME=lo",
    "env.NCCL_SOCKET_IFNAME=lo,eth0",
    "env.NCCL_SOCKET_IFNAME=eth0,lo",
    "env.NCCL_SOCKET_IFNAME==lo",
    "env.NCCL_SOCKET_IFNAME==eth0,lo",
    "env.NCCL_SOCKET_IFNAME=^docker0",
    "env.NCCL_SOCKET_IFNAME=^=l",
    "env.GLOO_SOCKET_IFNAME=lo",
    "env.GLOO_SOCKET_IFNAME=eth0,lo",
]
NO_LO = [
    "network.interface=eth0",
    "network.interface=ib0,ib1",
    "env.NCCL_SOCKET_IFNAME==eth0,long",
    "env.NCCL_SOCKET_IFNAME=local",
    "env.NCCL_SOCKET_IFNAME=^lo,docker",
    "env.NCCL_SOCKET_IFNAME=^=docker0,lo",
    "env.NCCL_SOCKET_IFNAME=l",
    "env.GLOO_SOCKET_IFNAME=long",
]


def quoted(word: str) -> str:
    """Quote a value with a comma so that Hydra reads it as text."""
    key, _, value = word.partition("=")
    return f"{key}='{value}'"


@pytest.mark.parametrize("word", LO)
def test_lo_leads_to_no_other_node(word: str) -> None:
    (told,) = found("JC3012", words=(*HOSTS, quoted(word)))
    assert told.key == word.partition("=")[0]
    assert "with 2 nodes" in told.title and "lo " in told.because
    assert not found("JC3012", words=(quoted(word),)), "one node is alone"


@pytest.mark.parametrize("word", NO_LO)
def test_another_interface_is_taken(word: str) -> None:
    assert not found("JC3012", words=(*HOSTS, quoted(word)))


@pytest.mark.parametrize("value", ["=eth0", "^lo"])
def test_gloo_reads_no_signs(value: str) -> None:
    (told,) = found("JC3012", words=(f"env.GLOO_SOCKET_IFNAME='{value}'",))
    assert "is not an interface name" in told.title and not told.judgment
