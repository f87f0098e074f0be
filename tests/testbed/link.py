"""A slow or lossy cable between two interfaces: does what netem does, for kernels without it.

    link.py ONE OTHER DELAY_S LOSS      prints "ready"; ends when its stdin is closed

Every frame that arrives at one interface leaves the other after DELAY_S, or is dropped with probability LOSS.
Offloading stays on: the header that describes it (struct virtio_net_hdr) travels with the frame. Source: packet(7),
linux/if_packet.h.
"""

from __future__ import annotations

import contextlib
import heapq
import random
import select
import socket
import sys
import time

SOL_PACKET, VNET_HDR, IGNORE_OUTGOING = 263, 15, 23
SO_RCVBUFFORCE = 33
ETH_P_ALL = 3
LONGEST = 10 + 14 + 65536 + 64  # headers of virtio and Ethernet, one segment that the kernel has not cut yet


def opened(interface: str) -> socket.socket:
    """Open a socket that receives all complete frames of one interface."""
    tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    tap.setsockopt(SOL_PACKET, VNET_HDR, 1)
    tap.setsockopt(SOL_PACKET, IGNORE_OUTGOING, 1)
    tap.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 16 << 20)
    tap.bind((interface, 0))
    tap.setblocking(False)
    return tap


def relay(one: socket.socket, other: socket.socket, delay_s: float, loss: float) -> None:
    ends = {one.fileno(): (one, other), other.fileno(): (other, one)}
    waiting: list[tuple[float, int, int, bytes]] = []  # due, number in order, end it goes out at, frame
    number = 0
    while True:
        timeout = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
        readable, _, _ = select.select([*ends, sys.stdin.fileno()], [], [], timeout)
        if sys.stdin.fileno() in readable:
            return
        now = time.monotonic()
        for end in readable:
            source, target = ends[end]
            with contextlib.suppress(OSError):  # nothing more to read, or the cable is pulled
                while True:
                    frame = source.recv(LONGEST)
                    number += 1
                    if random.random() >= loss:
                        heapq.heappush(waiting, (now + delay_s, number, target.fileno(), frame))
        while waiting and waiting[0][0] <= time.monotonic():
            _, _, end, frame = heapq.heappop(waiting)
            with contextlib.suppress(OSError):  # pulled: the frame is lost
                ends[end][0].send(frame)


if __name__ == "__main__":
    taps = opened(sys.argv[1]), opened(sys.argv[2])
    print("ready", flush=True)
    relay(*taps, float(sys.argv[3]), float(sys.argv[4]))
