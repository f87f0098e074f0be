"""The TCP port where the ranks meet: chosen, or checked to be free.

Usage  python -I -S head_port.py PORT      0 = choose one
Out    the port on stdout; exit 71 when it is in use
"""

from __future__ import annotations

import errno
import random
import socket
import sys
from pathlib import Path

if not __package__:  # started by path: find the sibling modules, whatever PYTHONPATH holds
    sys.path.insert(0, str(Path(__file__).absolute().parents[1]))
    __package__ = "rt"

from . import exit_codes

# Below Linux's range for outgoing connections (ip_local_port_range, 32768 up), so that none of those takes
# the port between our look and the launcher's bind.
CANDIDATES = range(20000, 32000)
TRIES = 200


def main(argv: list[str]) -> int:
    """The exit code."""
    port = int(argv[0]) or choose()
    if not is_free(port):
        return exit_codes.RENDEZVOUS_FAILED
    print(port)
    return exit_codes.DONE


def choose() -> int:
    """A free port, at random, so that two runs that start together rarely try the same."""
    for _ in range(TRIES):
        port = random.SystemRandom().choice(CANDIDATES)
        if is_free(port):
            return port
    raise OSError(errno.EADDRINUSE, f"no free port among {TRIES} tried from {CANDIDATES.start} up")


def is_free(port: int) -> bool:
    """Could a store listen there on all addresses, as torch's TCPStore does?"""
    family, address = (socket.AF_INET6, "::") if socket.has_dualstack_ipv6() else (socket.AF_INET, "0.0.0.0")
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections in TIME_WAIT do not matter
        if family == socket.AF_INET6:
            probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        try:
            probe.bind((address, port))
            probe.listen(1)
        except OSError as error:
            if error.errno in (errno.EADDRINUSE, errno.EACCES):  # EACCES: below 1024 and not root
                return False
            raise
    return True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
