"""Wait until the rendezvous endpoint accepts connections, and diagnose why it does not.

Standard library only. Rank 0 does not wait: it, or torchrun on its node, serves the endpoint.
"""

from collections.abc import Callable

from ..lifecycle.errors import RendezvousFailed
from ...runtime.network.reach import wait_until_port_answers


def wait_for_master(host: str, port: int, timeout_s: float, stopped: Callable[[], bool]) -> None:
    """Return when host:port accepts a connection or `stopped()` is true. Raises RendezvousFailed after timeout_s."""
    if cause := wait_until_port_answers(host, port, timeout_s, stopped):
        hint = "check that rank 0 is running and that the port is open between the nodes (jobctl preflight checks both)"
        raise RendezvousFailed(cause, hint=hint)
