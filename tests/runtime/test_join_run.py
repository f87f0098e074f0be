"""join_run.sh: when the nodes of a new submission may go on with a run that an earlier one had."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from .conftest import REPO

ASK = 'source "$0"; source "${0%/*}/join_run.sh"; run=$1; refuse_beating 2; echo goes on'


def ask(run: Path) -> subprocess.Popen[str]:
    command = ["bash", "-euo", "pipefail", "-c", ASK, str(REPO / "trainer/rt/run.sh"), str(run)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def state(run: Path, words: str, age_s: float) -> Path:
    file = run / "state" / "node_01"
    file.parent.mkdir(parents=True)
    file.write_text(words)
    os.utime(file, (time.time() - age_s,) * 2)
    return file


@pytest.mark.parametrize(
    ("words", "age_s"), [("attempt=2\nended=1\n", 0), ("attempt=1\n", 0), ("attempt=2\n", 92)], ids=str
)
def test_a_node_that_ended_or_was_silent_or_is_of_an_older_attempt_holds_nobody(
    tmp_path: Path, words: str, age_s: float
) -> None:
    state(tmp_path, words, age_s)
    assert ask(tmp_path).communicate(timeout=20)[0] == "goes on\n"


def test_a_node_without_a_last_word_is_waited_for_until_it_has_been_silent(tmp_path: Path) -> None:
    state(tmp_path, "attempt=2\n", 87)
    assert "waiting until it has been inactive for 90 s\ngoes on\n" in ask(tmp_path).communicate(timeout=30)[0]


def test_a_node_that_beats_ends_the_other_job(tmp_path: Path) -> None:
    file = state(tmp_path, "attempt=2\n", 20)
    asked = ask(tmp_path)
    assert asked.stdout is not None
    assert "waiting" in asked.stdout.readline()
    os.utime(file)
    assert f"run {tmp_path.name} is live: node 01 of another job writes to it" in asked.communicate(timeout=20)[0]
    assert asked.returncode == 1
