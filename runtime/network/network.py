"""Configure NCCL and Gloo for this node's network: choose the interface, and check the fabric (fabric.py).

In:    JOBC_NODE_RANK. Variables that are already set stay unchanged.
Out:   variables for the ranks. Otherwise, raises Failure, with exit code 65 or 71.
Source: NCCL 2.28 user guide, environment variables; RCCL 7 reads the same ones; torch 2.13 for Gloo; aws-ofi-nccl 1.16.
"""

from __future__ import annotations

import os
import socket
import sys
import time

from .. import exit_codes
from ..system.failure import Failure
from . import interfaces
from .reach import SILENT_S

RDMA = ("infiniband", "roce", "efa", "slingshot")  # profiles that pin memory
FABRICS = (*RDMA, "tcpx")


def nccl_and_gloo_variables(profile: str, interface: str, gpus: int, head: str, timeout_s: float) -> dict[str, str]:
    """Return the NCCL and Gloo variables that are not set yet. Raises Failure.

    profile, interface, gpus: as in the spec.
    head: node 0's host.
    timeout_s: how long to wait until that name resolves.
    """
    wait_until_name_resolves(head, timeout_s)
    chosen = choose_interface(interface, head, int(os.environ["JOBC_NODE_RANK"]) == 0)
    chosen_variables = socket_variables(chosen)
    if gpus:
        chosen_variables.update(fabric_variables(profile, chosen))
    return {name: value for name, value in chosen_variables.items() if not os.environ.get(name)}


def wait_until_name_resolves(head: str, timeout_s: float) -> None:
    """Wait until the name resolves or time runs out. If the job creates its nodes, node 0's name may not exist yet."""
    start, next_line_s = time.monotonic(), SILENT_S
    while (waited_s := time.monotonic() - start) < timeout_s:
        try:
            socket.getaddrinfo(head, None)
            return
        except socket.gaierror:
            if waited_s >= next_line_s:
                remaining = f"giving up in {timeout_s - waited_s:.0f} s"
                print(f"waiting for node 0: the name {head} does not resolve; {remaining}", file=sys.stderr, flush=True)
                next_line_s += SILENT_S
            time.sleep(1)


def choose_interface(wanted: str, head: str, is_head: bool) -> str:
    """Return the interfaces for TCP, comma-separated: `wanted`, or the one that leads to `head`. Raises Failure."""
    if wanted:
        names = interfaces.interface_by_address()
        for name in wanted.split(","):
            if name not in names.values():
                local = ("127.", "::1", "fe80:")
                available = ", ".join(f"{name} ({ip})" for ip, name in names.items() if not ip.startswith(local))
                title = f"network.interface={name}: this node has no such interface, or it has no address"
                hint = f"available: {available or 'none'}; without network.interface, each node finds its own interface"
                raise Failure(title, hint, exit_codes.DATA_BROKEN)
        return wanted
    if head == "localhost" or head.startswith("127.") or head == "::1":
        return "lo"  # such an address means that all nodes are on one machine
    try:
        address = interfaces.local_address_for(head)
    except OSError as error:
        hint = "check that the name is in DNS or /etc/hosts of this node, and that a route exists"
        title = f"this node cannot reach node 0, {head}: {error.strerror}"
        raise Failure(title, hint, exit_codes.RENDEZVOUS_FAILED) from error
    interface = interfaces.interface_by_address().get(address)
    if interface == "lo" and is_head:
        interface = interfaces.interface_of_default_route()  # Debian maps a host's own name to 127.0.1.1
    if interface is None or interface == "lo":
        hint = f"fix the entry of {head} in /etc/hosts, or set the interface: network.interface=eth0"
        title = f"{head}, the name of node 0, resolves to {address} here, which other nodes cannot reach"
        raise Failure(title, hint, exit_codes.RENDEZVOUS_FAILED)
    return interface


def socket_variables(names: str) -> dict[str, str]:
    """Return the variables that select these interfaces.

    NCCL reads names as prefixes (eth1 matches eth10) unless they begin with `=`; Gloo accepts only plain names.
    """
    return {"NCCL_SOCKET_IFNAME": f"={names}", "GLOO_SOCKET_IFNAME": names}


def fabric_variables(profile: str, interface: str) -> dict[str, str]:
    """Return the variables that make NCCL use only the profile's fabric. Raises Failure if this node lacks it."""
    if profile not in FABRICS:
        return {}
    from . import fabric  # packed only in jobs with such a profile

    return fabric.fabric_variables(profile, interface, os.environ)
