"""What logs.sh makes of the logs of several nodes: merged by time, as they grow, without keeping them in memory."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

RUN_SH = Path(__file__).parents[2] / "trainer/rt/run.sh"


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    folder = tmp_path / "my 'run'" / "logs"
    folder.mkdir(parents=True)
    return folder


def say(logs: Path, node: int, time_s: int, *lines: str) -> None:
    """As NodeLog does."""
    log, times = logs / f"node_{node:02}.log", logs / f".node_{node:02}.times"
    with times.open("a") as file:
        file.write(f"{time_s} {log.stat().st_size if log.exists() else 0}\n")
    with log.open("a") as file:
        file.writelines(f"{line}\n" for line in lines)


def printed(logs: Path, nodes: int, *between: str) -> str:
    """By print_logs, called once, and again after each command in `between`."""
    call = f'print_logs "$0" {nodes} <<<"$(log_sizes "$0" \'node_*.log\')"'
    script = f"set -euo pipefail; source {RUN_SH}; {call}" + "".join(
        f"; {command}; echo --; {call}" for command in between
    )
    done = subprocess.run(
        ["bash", "-c", script, str(logs.parent)], capture_output=True, text=True, errors="surrogateescape", check=True
    )
    assert done.stderr == ""
    return done.stdout


def test_lines_of_nodes_come_in_the_order_in_which_they_were_said(logs: Path) -> None:
    say(logs, 0, 100, "a", "b é", "")
    say(logs, 1, 101, "c")
    say(logs, 0, 102, "d")
    say(logs, 10, 102, "e")
    say(logs, 1, 103, "f")
    lines = ["0  | a", "0  | b é", "0  | ", "1  | c", "0  | d", "10 | e", "1  | f"]
    assert printed(logs, 11) == "".join(f"node {line}\n" for line in lines)


def test_the_log_of_one_node_is_printed_as_it_is(logs: Path) -> None:
    (logs / "node_00.log").write_bytes(b"50 %\n\ttab\n\xff no newline")
    assert printed(logs, 1) == "50 %\n\ttab\n\udcff no newline"


def test_what_has_been_printed_is_not_printed_again(logs: Path) -> None:
    say(logs, 0, 100, "a")
    say(logs, 1, 101, "b")
    log = '>>"$0/logs/node_01.log"'
    output = printed(logs, 2, f"printf 'c\\npart' {log}", f"printf 'ial\\n' {log}", "true")
    assert output == "node 0  | a\nnode 1  | b\n--\nnode 1  | c\nnode 1  | part\n--\nnode 1  | ial\n--\n"


def test_the_logs_of_a_thousand_nodes_are_merged_in_seconds(logs: Path) -> None:
    for node in range(1000):
        say(logs, node, 100 + node % 7, "x" * 70)
        say(logs, node, 200 + node % 5, "y" * 70)
    before = os.times()
    lines = printed(logs, 1000).splitlines()
    used = os.times()
    assert len(lines) == 2000 and all("| x" in line for line in lines[:1000])
    assert used.children_user + used.children_system - before.children_user - before.children_system < 5


def test_a_log_without_times_is_shown_all_the_same(logs: Path) -> None:
    (logs / "node_00.log").write_text("a\n")
    say(logs, 1, 100, "b")
    assert printed(logs, 2) == "node 0  | a\nnode 1  | b\n"
