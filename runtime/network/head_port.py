"""Choose the rendezvous port on node 0, and pass it to the other nodes through the run folder.

In:    the variables JOBC_RUN_ID, JOBC_NODES and JOBC_NODE_RANK.
Out:   the port, and the run's state/head, which node 0 writes. Failure has exit code 71 if the port is in use or node 0
       does not publish it in time, and 69 if a node failed while this one was waiting.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import struct
import time
import zlib

from .. import exit_codes
from ..run_folder.run_folder import RunFolder, read_small_file, write_small_file
from ..system.failure import Failure

# Below Linux's range for outgoing connections (ip_local_port_range, 32768 up), so that no such connection takes the
# port between our check and the launcher's bind.
CANDIDATES = range(20000, 32000)
TRIES = 200
POLL_S = 0.2
F_OFD_SETLK = 37  # on Linux, the lock lasts as long as the process that started the node keeps the file open


def agree_on_rendezvous_port(run: RunFolder, wanted: int, lock: int, timeout_s: float) -> int:
    """Return the rendezvous port, which node 0 publishes. Raises Failure, OSError.

    wanted: 0 to choose a free one.
    lock: descriptor of a file whose byte N is locked while a run of this user on this machine uses port N.
    """
    if int(os.environ["JOBC_NODE_RANK"]) != 0:
        return wanted or wait_for_published_port(run, timeout_s)
    if wanted and not is_free(wanted):
        why = f"rendezvous port {wanted} is in use on {os.uname().nodename}"
        hint = f"find the process with `ss -ltnp 'sport = :{wanted}'`, or set another rendezvous.port"
        raise Failure(why, hint, exit_codes.RENDEZVOUS_FAILED)
    port = wanted or choose_free_port(f"{os.environ['JOBC_RUN_ID']}/{run.attempt}", lock)
    if int(os.environ["JOBC_NODES"]) > 1:
        write_small_file(run.rendezvous_file, keys={"attempt": run.attempt, "host": os.uname().nodename, "port": port})
    return port


def choose_free_port(run: str, lock: int) -> int:
    """Return a free port: always the same one for a run or, if that is taken, the next free one. Raises OSError."""
    first = zlib.crc32(run.encode())
    for attempt in range(TRIES):
        port = CANDIDATES[(first + attempt) % len(CANDIDATES)]
        if lock_port(port, lock) and is_free(port):
            return port
    raise OSError(errno.EADDRINUSE, f"no free port: tried {TRIES} ports from {CANDIDATES.start} up")


def lock_port(port: int, lock: int) -> bool:
    """Lock the port. Return False if another run has chosen it."""
    write_lock = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, port, 1, 0)
    try:
        fcntl.fcntl(lock, F_OFD_SETLK, write_lock)
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES):
            return False
        raise
    return True


def wait_for_published_port(run: RunFolder, timeout_s: float) -> int:
    """Wait until this attempt's node 0 writes the port. Return it. Raises Failure on timeout or if a node failed."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        os.listdir(run.rendezvous_file.parent)  # makes a network file system refresh its cache
        if state := run.keys_of_attempt(run.rendezvous_file):
            return int(state["port"])
        if first := read_small_file(run.first_failure):
            why = f"node {first[1].get('node')} failed first (exit {first[0]}: {first[1].get('reason')})"
            raise Failure(why, "jobctl status shows the result of each node", exit_codes.PEER_LOST)
        time.sleep(POLL_S)
    why = f"node 0 ({os.environ.get('JOBC_HEAD_ADDR')}) did not start within {timeout_s:.0f} s"
    hint = f"see its log, {run.node_log_file(0)}; or raise rendezvous.timeout"
    raise Failure(why, hint, exit_codes.RENDEZVOUS_FAILED)


def is_free(port: int) -> bool:
    """Return whether a store could listen on this port on all addresses, as torch's TCPStore does."""
    family, address = (socket.AF_INET6, "::") if socket.has_dualstack_ipv6() else (socket.AF_INET, "0.0.0.0")
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections in TIME_WAIT do not matter
        if family == socket.AF_INET6:
            probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        try:
            probe.bind((address, port))
            probe.listen(1)
        except OSError as error:
            if error.errno in (errno.EADDRINUSE, errno.EACCES):  # EACCES: a port below 1024 without being root
                return False
            raise
    return True
