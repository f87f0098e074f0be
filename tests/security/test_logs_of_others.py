"""Logs and states of runs that another user has filled: no terminal is changed, and no reader is kept busy."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from jobc.runtime.engines import log_files
from jobc.runtime.engines.log_files import offset_of_last_lines
from jobc.runtime.run_folder import run as run_module
from jobc.runtime.run_folder.run import Run, recorded_exit_codes
from jobc.runtime.system.streams import LogOutput
from jobc.runtime.system.text import printable_log

from .users import SharedJob

PROGRAM = "print('trained')"
TITLE = "\x1b]0;title\x07"


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        (f"{TITLE}a\x1b]52;c;cm0=\x1b\\b\x1bPq\x1b\\c", "abc"),
        ("\x1b[2J\x1b[10;1H\x1b[?1049h\x1b[6n\x9b31m\u202ea\x1bcb\0\a", "31macb"),
        ("\x1b[1;31mred\x1b[0m\tloss\n", "\x1b[1;31mred\x1b[0m\tloss\n"),
        ("10%|#\r20%|##\x1b[K\b\n", "10%|#\r20%|##\x1b[K\b\n"),
        ("\x1b]0;never ended\nnext", "\nnext"),
    ],
)
def test_only_colors_and_progress_bars_stay_in_a_log(text: str, printed: str) -> None:
    assert printable_log(text) == printed


def test_a_control_character_that_is_written_in_two_parts_is_removed(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    out = LogOutput(is_foreign=True)
    for part in (b"a\xc2", b"\x9b2J\xe2\x80", b"\xaeb\xff"):
        out.write(part)
    out.flush()
    assert capfdbinary.readouterr().out.decode() == "a2Jb\ufffd"


def test_the_log_of_another_user_does_not_change_the_terminal(both_users: SharedJob) -> None:
    for name in ("mine", "theirs"):
        (both_users.runs / name / "logs/node_00.log").write_text(f"{TITLE}loss 1\n")
    assert both_users.call("logs", "--run", "theirs").output == "loss 1\n"
    assert both_users.call("logs", "--run", "mine").output == f"{TITLE}loss 1\n", "a pipe gets what the job printed"
    assert both_users.call("logs", "--run", "theirs", "--tail", "1").output == "loss 1\n"


def test_the_own_log_does_not_change_the_terminal(both_users: SharedJob) -> None:
    (both_users.runs / "mine/logs/node_00.log").write_text(f"{TITLE}loss 1\n")
    terminal, printed_to = os.openpty()
    command = [sys.executable, both_users.artifact / "jobctl", "logs", "--run", "mine"]
    subprocess.run(command, cwd=both_users.folder, stdin=subprocess.DEVNULL, stdout=printed_to, check=True)
    assert os.read(terminal, 100) == b"loss 1\r\n"


def test_the_last_lines_of_a_sparse_log_are_found_at_once(tmp_path: Path) -> None:
    log = tmp_path / "node_00.log"
    log.touch()
    os.truncate(log, 1 << 40)
    began = time.monotonic()
    offset, lines = offset_of_last_lines(log, 1 << 40, 5)
    assert ((1 << 40) - offset, lines) == (5 << 20, 1) and time.monotonic() - began < 5


def test_a_bounded_number_of_nodes_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (run_module, log_files):
        monkeypatch.setattr(module, "MOST_NODES", 3)
    for name in ("state/node_{:02}", "exit/0/node_{:02}", "logs/node_{:02}.log"):
        (tmp_path / name).parent.mkdir(parents=True)
        for node in range(5):
            (tmp_path / name.format(node)).write_text("0\n")
    run = Run(tmp_path)
    assert len(run.nodes()) == 3
    assert len(recorded_exit_codes(tmp_path / "exit/0")) == 3
    assert len(log_files.RequestedLogs(run, "", 5).log_sizes()) == 3
