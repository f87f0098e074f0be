"""A rank whose standard error is also written elsewhere."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from jobc.runtime.run_folder.run_folder import LossyLog

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


def test_a_slow_reader_gets_everything_or_the_number_of_bytes_that_were_dropped(tmp_path: Path) -> None:
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    log = LossyLog(write_end, wait_s=5)
    reader = threading.Timer(0.2, lambda: received.append(read_bytes(read_end, 200_000)))
    received: list[bytes] = []
    reader.start()
    assert log.write(b"x" * 200_000) == "", "it waits for the reader"
    reader.join()
    assert received == [b"x" * 200_000]
    log.wait_s = 0.1
    assert log.write(b"y" * 100_000) == "the reader is too slow"
    began = time.monotonic()
    assert log.write(b"z" * 5000) == "" and time.monotonic() - began < 0.1, "it does not wait again while it drops"
    size = fcntl.fcntl(write_end, fcntl.F_GETPIPE_SZ)
    assert read_bytes(read_end, size) == b"y" * size
    log.write(b"")
    assert (
        f"jobc: dropped {105_000 - size} bytes of output here: the reader is too slow"
        in os.read(read_end, 999).decode()
    )
    os.close(read_end)
    os.close(write_end)


def read_bytes(descriptor: int, count: int) -> bytes:
    content = b""
    while len(content) < count:
        content += os.read(descriptor, count - len(content))
    return content
