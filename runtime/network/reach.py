"""Wait until a TCP port on another host answers, and report why if it does not.

Usage: jobctl reach HOST PORT SECONDS -- COMMAND…      execs COMMAND once HOST:PORT answers
Out:   a line on stdout every ten seconds. If no answer arrives in time, a line on stderr, and exit code 71.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Callable

from .. import exit_codes

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 2.0
CONNECT_TIMEOUT_S = 5.0
SILENT_S = 10.0  # a shorter wait is normal and is not reported
REFUSED = "connection refused"


def main(argv: list[str]) -> int:
    """Wait, then exec the command. On timeout, return the exit code."""
    host, port, timeout_s, _, *command = argv
    why = wait_until_port_answers(host, int(port), float(timeout_s))
    if why is None:
        os.execvp(command[0], command)
    print(f"jobc: {why}", file=sys.stderr)
    return exit_codes.RENDEZVOUS_FAILED


def wait_until_port_answers(
    host: str, port: int, timeout_s: float, stopped: Callable[[], bool] = lambda: False
) -> str | None:
    """Wait until host:port accepts a connection. Return None if it does or `stopped()` is true, or else why not."""
    start, pause_s, next_line_s = time.monotonic(), FIRST_PAUSE_S, SILENT_S
    while not stopped():
        left_s = timeout_s - (time.monotonic() - start)
        cause = why_port_is_unreachable(host, port, min(CONNECT_TIMEOUT_S, max(left_s, 0.1)))
        if cause is None:
            return None
        waited_s = time.monotonic() - start
        if waited_s + pause_s >= timeout_s:
            return f"node 0 at {host}:{port} did not respond within {timeout_s:g} s: {cause}"
        if waited_s >= next_line_s:
            remaining = f"giving up in {timeout_s - waited_s:.0f} s"
            print(f"waiting for node 0 at {host}:{port}: {cause}; {remaining}", flush=True)
            next_line_s += SILENT_S
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
    return None


def why_port_is_unreachable(host: str, port: int, timeout_s: float) -> str | None:
    try:
        socket.create_connection((host, port), timeout=timeout_s).close()
    except socket.gaierror:
        return f"the name {host} does not resolve"
    except ConnectionRefusedError:
        return REFUSED
    except TimeoutError:
        return f"no reply within {timeout_s:.0f} s"
    except OSError as error:
        return error.strerror or str(error)
    return None
