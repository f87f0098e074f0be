"""Wait until the host of rank 0 answers, and say which of three things is wrong when it does not.

Standard library only. Rank 0 itself never waits: it, or torchrun on its node, is what answers.
"""

from collections.abc import Callable

from ..lifecycle.errors import RendezvousFailed
from ..rt.reach import wait_until_reached


def wait_for_master(host: str, port: int, timeout_s: float, stopped: Callable[[], bool]) -> None:
    """Return when host:port accepts a connection, or when `stopped()` says that waiting is pointless.

    Raises RendezvousFailed after timeout_s, with the last cause.
    """
    if why := wait_until_reached(host, port, timeout_s, stopped):
        hint = "check that rank 0 runs and that the port is open between the nodes (jobctl preflight checks both)"
        raise RendezvousFailed(why, hint=hint)
