"""Each reason why the head node does not respond has its own message."""

import socket
import time

import pytest

from jobc.runtime.exit_codes import RENDEZVOUS_FAILED
from jobc.trainer.dist.process_group import wait_for_master
from jobc.trainer.lifecycle.errors import RendezvousFailed


def never() -> bool:
    return False


def test_an_open_port_ends_the_wait() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        wait_for_master("127.0.0.1", server.getsockname()[1], timeout_s=5, stopped=never)


def test_a_name_that_does_not_resolve_is_told() -> None:
    with pytest.raises(RendezvousFailed, match=r"the name no-such-host\.invalid does not resolve") as caught:
        wait_for_master("no-such-host.invalid", 1, timeout_s=0.3, stopped=never)
    assert caught.value.code == RENDEZVOUS_FAILED


def test_a_closed_port_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    started = time.monotonic()
    with pytest.raises(RendezvousFailed, match="connection refused"):
        wait_for_master("127.0.0.1", port, timeout_s=0.5, stopped=never)
    assert time.monotonic() - started < 1.5


def test_a_request_to_stop_ends_the_wait() -> None:
    wait_for_master("no-such-host.invalid", 1, timeout_s=60, stopped=lambda: True)
