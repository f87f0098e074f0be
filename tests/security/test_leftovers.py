"""A test session that leaves a process fails, and ends it. Processes that a test bed started on a host end with a
timeout.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from jobc.tests.leftovers import MARK
from jobc.tests.testbed.process import Process, descendants, is_over, wait_for

REPO = Path(__file__).parents[2]
TEST = """
import subprocess
def test_it(tmp_path):
    words = {words}
    silent = dict(stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    print("PID", subprocess.Popen(words, start_new_session=True, **silent).pid)
"""


@pytest.mark.parametrize(
    ("words", "code"),
    [('["sleep", "300"]', 1), ('["env", "-i", f"HOME={tmp_path}", "sleep", "300"]', 1), ('["true"]', 0)],
)
def test_a_session_that_leaves_a_process_fails_and_ends_it(words: str, code: int, tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(TEST.format(words=words))
    (tmp_path / "conftest.py").write_text((REPO / "tests/conftest.py").read_text())
    outer = {name: value for name, value in os.environ.items() if name != MARK and not name.startswith("PYTEST")}
    environment = {**outer, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # importing them takes a second
    command = [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", f"--basetemp={tmp_path}/base"]
    done = subprocess.run(
        [*command, str(tmp_path)],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    (pid,) = (int(line.split()[-1]) for line in done.stdout.splitlines() if "PID" in line)
    assert is_over(pid)
    assert ("the tests left 1 processes" in done.stderr) == bool(code)


def test_all_below_a_process_of_a_host_ends_with_it() -> None:
    inner = "trap : TERM; sleep 300 & sleep 300"
    process = Process(["setsid", "--wait", "bash", "-c", f"bash -c {shlex.quote(inner)} & wait"], text=True)
    wait_for(lambda: len(descendants(process.pid)) >= 2, "the processes", 30)
    pids = descendants(process.pid)
    process.kill_all()
    process.wait(30)
    wait_for(lambda: all(map(is_over, pids)), "their end", 30)
    assert process.returncode != -signal.SIGTERM
