"""How a supervisor reacts to the other supervisors' files in a shared run folder."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from jobc.runtime import exit_codes
from jobc.runtime.run_folder.run_folder import RunFolder, read_small_file, write_small_file
from jobc.runtime.supervisor.peers import SILENT_S, PeerNodes


def test_a_node_whose_link_was_closed_is_missed_when_its_beats_stop(tmp_path: Path) -> None:
    """Before a restart in place, the nodes communicate through the run folder, and one of them may be lost then."""
    (tmp_path / "state").mkdir()
    run = RunFolder(tmp_path, 1)
    for node in range(2):
        write_small_file(run.node_state_file(node), keys={"host": f"n{node}", "attempt": 1})
    os.utime(run.node_state_file(0), (time.time() - 1000, time.time() - 1000))
    peers = PeerNodes(run, 1, 2, "127.0.0.1")
    assert peers.links
    peers.links.met.add(0)
    peers.touch_state_file()
    assert peers.reason_to_end().startswith("node 0 (n0) has not responded for ") and not peers.running_nodes(0)


@pytest.mark.parametrize(
    ("behind_s", "linked", "more", "missed"),
    [
        (SILENT_S + 5, False, {}, True),
        (SILENT_S - 5, False, {}, False),
        (SILENT_S + 5, True, {}, False),  # the link tells, and sooner, as long as its thread runs
        (SILENT_S + 5, False, {"ended": 1}, False),
        (SILENT_S + 5, False, {"attempt": 0}, False),  # left by an earlier attempt: that node is not there yet
    ],
)
def test_a_node_that_was_never_linked_is_missed_when_its_beats_stop(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    behind_s: float,
    linked: bool,
    more: dict[str, object],
    missed: bool,
) -> None:
    (tmp_path / "state").mkdir()
    run = RunFolder(tmp_path, 1)
    for node in range(3):
        write_small_file(
            run.node_state_file(node), keys={"host": f"n{node}", "attempt": 1, **(more if node == 0 else {})}
        )
    now = time.time()
    os.utime(run.node_state_file(0), (now - behind_s, now - behind_s))
    peers = PeerNodes(run, 1, 3, "127.0.0.1")
    assert peers.links
    if linked:
        peers.links.met.add(0)
        monkeypatch.setattr(peers.links, "is_alive", lambda: True)
    peers.touch_state_file()
    trouble = peers.reason_to_end()
    assert trouble.startswith("node 0 (n0) has not responded for ") == missed, trouble
    if missed:
        code, keys = read_small_file(run.first_failure) or ("", {})
        assert code == str(exit_codes.PEER_LOST) and keys["reason"] == trouble
