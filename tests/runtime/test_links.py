"""The links between supervisors: marks reach run folders that are not shared, and messages from anyone else are
rejected.
"""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jobc.runtime.network.json_connection import JsonConnection, prove_token
from jobc.runtime.run_folder.run_folder import RunFolder, read_small_file, write_small_file
from jobc.runtime.supervisor.links import DOUBT_S, HEAD_LOST_S, HeadLinks, LinkToHead, SupervisorLinks


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[list[SupervisorLinks]]:
    """Yield three nodes, each with its own run folder, which contains what jobctl submit sends to the other nodes."""
    folders = [RunFolder(tmp_path / str(node), 0) for node in range(3)]
    for folder in folders:
        (folder.path / "state").mkdir(parents=True)
    hub = HeadLinks(folders[0], 0, 3)
    for folder in folders[1:]:
        folder.supervisor_address_file.write_bytes(folders[0].supervisor_address_file.read_bytes())
    made = [hub, *(LinkToHead(folders[node], node, "127.0.0.1") for node in (1, 2))]
    for links in made:
        links.start()
    yield made
    for links in made:
        links.announce_end()
    for links in made:
        links.join(30)
        assert not links.is_alive()


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, f"waited for {what}"
        time.sleep(0.02)


def test_a_value_is_one_line_whatever_unicode_calls_a_line(tmp_path: Path) -> None:
    keys = {"reason": "a\u0085b\u2028c\rd\x1ce", "node": "1"}
    write_small_file(tmp_path / "first", "70", keys)
    assert read_small_file(tmp_path / "first") == ("70", keys)


def test_the_first_failure_of_a_node_reaches_all(nodes: list[SupervisorLinks]) -> None:
    keys = {"node": 2, "reason": "exit status 1"}
    write_small_file(nodes[2].run_folder.first_failure, "1", keys)
    until(lambda: all(links.run_folder.first_failure.exists() for links in nodes), "the failure")
    assert read_small_file(nodes[1].run_folder.first_failure) == ("1", {"node": "2", "reason": "exit status 1"})


def test_the_stop_mark_on_one_node_reaches_all(nodes: list[SupervisorLinks]) -> None:
    nodes[1].run_folder.stop_mark.parent.mkdir()
    nodes[1].run_folder.stop_mark.touch()
    until(lambda: all(links.run_folder.stop_mark.exists() for links in nodes), "the mark")


def test_a_node_that_has_ended_is_not_missed_and_node_0_stays_for_the_others(nodes: list[SupervisorLinks]) -> None:
    until(lambda: all(links._heard for links in nodes) and len(nodes[0]._heard) == 2, "all links")
    nodes[0].announce_end()
    nodes[1].announce_end()
    until(lambda: not nodes[1].is_alive(), "the end of node 1")
    time.sleep(1)
    assert nodes[0].is_alive() and not nodes[0].lost
    write_small_file(nodes[2].run_folder.first_failure, "1", {"node": 2, "reason": "later"})
    until(nodes[0].run_folder.first_failure.exists, "what node 2 says after the end of node 0")
    nodes[2].announce_end()
    until(lambda: not nodes[0].is_alive(), "the end of node 0")


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"{}\n",
        b"nonsense\n",
        b"x" * 100_000,
        b"[" * 50_000 + b"\n",
        b'{"node": 1, "proof": "\xc3\xa9"}\n',
        b'{"stop": {}}\n',
        None,
    ],
)
def test_who_does_not_know_the_token_is_not_heard(nodes: list[SupervisorLinks], answer: bytes | None) -> None:
    state = read_small_file(nodes[0].run_folder.supervisor_address_file)
    assert state is not None and nodes[0].run_folder.supervisor_address_file.stat().st_mode & 0o077 == 0
    with socket.create_connection(("127.0.0.1", int(state[1]["port"])), timeout=10) as stranger:
        nonce = json.loads(stranger.recv(1000))["nonce"]
        lie = {"node": 1, "host": "x", "proof": prove_token("guessed", nonce), "stop": {}}
        with contextlib.suppress(OSError):  # node 0 hangs up
            stranger.sendall(json.dumps(lie).encode() + b"\n" if answer is None else answer)
            time.sleep(0.5)
            stranger.sendall(b'{"stop": {}}\n')
        time.sleep(0.5)
    assert not any(links.run_folder.stop_mark.exists() for links in nodes) and nodes[0].is_alive()


def test_a_mark_that_comes_after_the_last_word_of_a_node_keeps_nobody(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    hub = HeadLinks(RunFolder(tmp_path, 0), 0, 2)
    near, far = socket.socketpair()
    with near, far, hub._listener:
        link = JsonConnection(near, node=1)
        for message in ({"node": 1}, {"ended": True}, {"told": {"code": "", "keys": {"node": "1"}}}):
            hub._on_message(link, message)
    assert not hub._heard


@pytest.mark.slow
def test_a_node_that_falls_silent_is_missed_after_20_s_and_not_after_10(nodes: list[SupervisorLinks]) -> None:
    until(lambda: len(nodes[0]._heard) == 2, "all links")
    nodes[2]._exchange_messages = lambda: time.sleep(0.1)  # type: ignore[method-assign] # it neither speaks nor listens
    time.sleep(10)
    assert not nodes[0].lost and not nodes[1].lost
    until(lambda: 2 in nodes[0].lost, "the loss")
    assert not nodes[1].lost
    del nodes[2]._exchange_messages
    until(lambda: not nodes[0].lost, "its return")


@pytest.mark.slow
def test_a_node_with_something_to_say_leaves_when_node_0_is_lost(nodes: list[SupervisorLinks]) -> None:
    until(lambda: 0 in nodes[1].met, "its link")
    nodes[0]._exchange_messages = lambda: time.sleep(0.1)  # type: ignore[method-assign] # it neither speaks nor listens
    silent = time.monotonic()
    write_small_file(nodes[1].run_folder.first_failure, "69", {"node": 1, "reason": "lost a peer"})
    time.sleep(5)
    nodes[1].announce_end()
    until(lambda: not nodes[1].is_alive(), "its end")
    assert time.monotonic() - silent < HEAD_LOST_S + DOUBT_S
    del nodes[0]._exchange_messages


def test_the_progress_of_steps_reaches_folders_that_are_not_shared(nodes: list[SupervisorLinks]) -> None:
    for links in nodes:
        links.then = 0
        links.run_folder.steps.mkdir(parents=True)
        (links.run_folder.steps / f"begun_{links.node}").touch()
    (nodes[2].run_folder.steps / "ready_2").touch()
    (nodes[0].run_folder.steps / "before").touch()

    def names(node: int) -> set[str]:
        return {path.name for path in nodes[node].run_folder.steps.iterdir()}

    until(lambda: names(0) == {"begun_0", "begun_1", "begun_2", "ready_2", "before"}, "begun and ready on node 0")
    until(lambda: names(1) == {"begun_0", "begun_1", "before"}, "before on node 1")
    (nodes[0].run_folder.steps / "go").touch()
    until(lambda: "go" in names(1) & names(2), "go")
