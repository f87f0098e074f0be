"""Output that nobody reads does not change a command's exit code."""

from __future__ import annotations

import os
import subprocess

import pytest

from ..shell import BIN, Shell


@pytest.mark.parametrize("words", ["--info", "backends", "--help"])
def test_a_reader_that_leaves_is_no_error(shell: Shell, words: str) -> None:
    done = shell.run(["bash", "-c", f"set -o pipefail; jobc {words} | true"])
    assert done.stderr == ""


def without_reader(shell: Shell, *words: str, of: str = "stdout", unbuffered: str = "") -> tuple[int, str]:
    """Run jobc with one stream that nobody reads. Return (exit code, the other stream)."""
    reading, writing = os.pipe()
    os.close(reading)
    environment = {"PATH": f"{BIN}:{os.environ['PATH']}", "HOME": str(shell.home), "PYTHONUNBUFFERED": unbuffered}
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, of: writing}
    command = [str(BIN / "jobc"), *words]
    done = subprocess.run(command, cwd=shell.project, env=environment, text=True, timeout=120, check=False, **streams)
    os.close(writing)
    return done.returncode, done.stderr if of == "stdout" else done.stdout


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    ("words", "status"),
    [
        ("check nodes=0 --format json", 1),
        ("check --nonsense --format json", 1),
        ("nodes=0 --format json", 1),
        ("check --format json", 0),
        ("explain JC0000", 1),
        ("diff nodes=1,2", 1),
        ("backends", 0),
    ],
)
def test_a_reader_that_leaves_changes_no_status(words: str, status: int, unbuffered: str, shell: Shell) -> None:
    found, said = without_reader(shell, *words.split(), unbuffered=unbuffered)
    assert (found, "Traceback" in said or "BrokenPipe" in said) == (status, False), said


def test_a_reader_of_errors_that_leaves_changes_nothing_either(shell: Shell) -> None:
    assert without_reader(shell, "check", "nodes=0", of="stderr") == (1, "")
    shell.write("jobc/experiment/e.yaml", "# @package _global_\nqueue: {name: fast}\n")
    assert without_reader(shell, "check", "+experiment=e", of="stderr") == (0, "no errors\n")


def test_a_closed_stream_changes_no_status(shell: Shell) -> None:
    for closing in (">&-", "2>&-", ">&- 2>&-"):
        for words, status in (("backends", 0), ("check nodes=0", 1)):
            done = shell.run(["bash", "-c", f"jobc {words} {closing}"])
            assert (done.returncode, "Traceback" in done.stderr) == (status, False), done.stderr


def test_a_run_that_nobody_follows_any_more_has_not_ended_well(shell: Shell) -> None:
    shell.write("work.py", "import time\ntime.sleep(3)\n")
    status, said = without_reader(shell, "run", "name=own", "launcher=spawn", "--", "work.py")
    assert (status, "Traceback" in said) == (141, False), said
