"""Query the kernel about this node's network interfaces: their addresses, and which interface leads to a host.

Needs neither `ip` nor `ifconfig`, which containers often lack, and sends no packets.
Source: rtnetlink(7), route(8).
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from pathlib import Path

RTM_GETADDR, NLMSG_DONE, REQUEST_DUMP = 22, 3, 0x301
IFA_ADDRESS, IFA_LOCAL = 1, 2
RTF_UP = 1


def local_address_for(host: str) -> str:
    """Return the source address that the kernel would use to reach `host`. If `host` is this node, that is its address.

    Raises OSError if the name does not resolve or there is no route.
    """
    family, _, _, _, address = socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, socket.SOCK_DGRAM) as unused:
        unused.connect(address)  # looks up the route; on a datagram socket, this sends nothing
        return str(unused.getsockname()[0])


def interface_by_address() -> dict[str, str]:
    """Return the interface name for each of this node's addresses."""
    request = struct.pack("=IHHIIBxxxI", 24, RTM_GETADDR, REQUEST_DUMP, 1, 0, socket.AF_UNSPEC, 0)
    names = dict(socket.if_nameindex())
    interfaces: dict[str, str] = {}
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW) as kernel:
        kernel.send(request)
        while True:
            for kind, body in _netlink_records(kernel.recv(1 << 16), "=IHHII"):
                if kind == NLMSG_DONE:
                    return interfaces
                family, index = body[0], struct.unpack_from("=I", body, 4)[0]
                attributes = dict(_netlink_records(body[8:], "=HH"))
                address = attributes.get(IFA_LOCAL) or attributes.get(IFA_ADDRESS)
                if address is not None and index in names:
                    interfaces[socket.inet_ntop(family, address)] = names[index]


def interface_of_default_route(table: Path = Path("/proc/net/route")) -> str | None:
    """Return the interface of the IPv4 default route with the lowest metric, or else the only one with any route."""
    routes = [line.split() for line in table.read_text().splitlines()[1:]]
    up = [route for route in routes if int(route[3], 16) & RTF_UP and route[0] != "lo"]
    default = sorted((route for route in up if route[1] == route[7] == "00000000"), key=lambda route: int(route[6]))
    names = [route[0] for route in default[:1]] or list({route[0] for route in up})
    return names[0] if len(names) == 1 else None


def _netlink_records(content: bytes, header: str) -> Iterator[tuple[int, bytes]]:
    """Yield the type and the body of each netlink message or attribute. header: struct format, length and type first"""
    start = struct.calcsize(header)
    while len(content) >= start:
        length, kind = struct.unpack_from(header, content)[:2]
        yield kind, content[start:length]
        content = content[(length + 3) & ~3 :]
