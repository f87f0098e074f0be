"""A rank whose standard error is also written elsewhere."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = "import sys; from jobc.runtime.ranks.rank import main; sys.exit(main(sys.argv[1:]))"
COMMAND = ("bash", "-c", "echo out; echo err >&2; echo stderr=$JOBC_STDERR")


@pytest.mark.parametrize("rank", [0, 1])
def test_stderr_is_in_both_files_and_only_rank_0_is_printed(tmp_path: Path, rank: int) -> None:
    errors = tmp_path / "errors"
    errors.write_text("before\n")
    where = {"JOBC_RUN_DIR": str(tmp_path), "JOBC_ATTEMPT": "0", "JOBC_NODE_RANK": "0", "JOBC_STDERR": str(errors)}
    environ = {**os.environ, **where, "RANK": str(rank), "LOCAL_RANK": str(rank)}
    words = [sys.executable, "-c", PROGRAM, "--", *COMMAND]
    done = subprocess.run(words, env=environ, capture_output=True, text=True, check=True)
    lines = {"out", "err", "stderr="}
    assert errors.read_text() == "before\nerr\n"
    assert set((tmp_path / f"logs/rank_0{rank}.log").read_text().splitlines()[1:]) == lines
    assert set(done.stdout.splitlines()) == (lines if rank == 0 else set()) and done.stderr == ""


def test_without_a_reader_a_rank_still_ends(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)  # it never reads
    where = {"JOBC_RUN_DIR": str(tmp_path), "JOBC_ATTEMPT": "0", "JOBC_STDERR": str(fifo), "RANK": "1"}
    words = [sys.executable, "-c", PROGRAM, "--", "bash", "-c", "head -c 300000 /dev/zero | tr '\\0' x >&2"]
    assert subprocess.run(words, env={**os.environ, **where}, check=False, timeout=30).returncode == 0
    os.close(reader)
    assert (tmp_path / "logs/rank_01.log").stat().st_size > 300000
