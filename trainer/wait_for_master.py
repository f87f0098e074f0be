"""Wait until the host of rank 0 answers, and say which of three things is wrong when it does not.

Standard library only. Rank 0 itself never waits: it, or torchrun on its node, is what answers.
"""

import socket
import time
from collections.abc import Callable

from .errors import RendezvousFailed

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 2.0
CONNECT_TIMEOUT_S = 5.0
SILENT_S = 10.0  # a wait shorter than this is normal and not worth a line


def wait_for_master(host: str, port: int, timeout_s: float, stopped: Callable[[], bool]) -> None:
    """Return when host:port accepts a connection, or when `stopped()` says that waiting is pointless.

    Raises RendezvousFailed after timeout_s, with the last cause.
    """
    start, pause_s, next_line_s = time.monotonic(), FIRST_PAUSE_S, SILENT_S
    while not stopped():
        left_s = timeout_s - (time.monotonic() - start)
        cause = why_unreachable(host, port, min(CONNECT_TIMEOUT_S, max(left_s, 0.1)))
        if cause is None:
            return
        waited_s = time.monotonic() - start
        if waited_s + pause_s >= timeout_s:
            raise RendezvousFailed(
                f"the head {host}:{port} did not answer within {timeout_s:g} s: {cause}",
                hint="is rank 0 running, and is the port open between the nodes? preflight.sh checks both",
            )
        if waited_s >= next_line_s:
            print(
                f"waiting for the head {host}:{port}: {cause}; giving up in {timeout_s - waited_s:.0f} s",
                flush=True,
            )
            next_line_s += SILENT_S
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)


def why_unreachable(host: str, port: int, timeout_s: float) -> str | None:
    """None when a TCP connection succeeds, else the cause in words."""
    try:
        socket.create_connection((host, port), timeout=timeout_s).close()
    except socket.gaierror:
        return f"the name {host} does not resolve"
    except ConnectionRefusedError:
        return "connection refused"
    except TimeoutError:
        return f"no reply within {timeout_s:.0f} s"
    except OSError as error:
        return error.strerror or str(error)
    return None
