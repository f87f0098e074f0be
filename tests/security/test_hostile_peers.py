"""Kind: exceptions of readers. Files left for this node by a peer or by anyone who can write to its bucket."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from jobc.runtime import exit_codes
from jobc.runtime.run_folder.run_folder import RunFolder, parse_count, read_small_file, record_first_failure
from jobc.runtime.storage.bucket_mirror import BucketMirror
from jobc.runtime.storage.bucket_run import BucketRun
from jobc.runtime.supervisor.verdict import take_rank_snapshot
from jobc.tests.storage.s3_server import S3Server

HOSTILE = {
    "empty": b"",
    "zeros": bytes(100),
    "not UTF-8": b"\xff\xfe=\xff\n",
    "text for numbers": b"x\nnode=y\ntime_ns=z\npid=-1\nstart_ticks=1e9\nattempt=0\n",
    "endless digits": b"1\ntime_ns=" + b"9" * 9000 + b"\npid=" + b"9" * 9000 + b"\nattempt=0\n",
    "bash": b"run[$(touch mark)]\ntime_ns=run[$(touch mark)]\npid=$(touch mark)\nattempt=0\n",
    "brackets": b"[" * 100_000,
}
OBJECTS = ("exit/0/first", "exit/0/node_00", "state/head", "state/link", "state/node_00", "metrics/rank_00.jsonl/1")
hostile = pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE)


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with S3Server() as server:
        yield server


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    folder = RunFolder(tmp_path, 0)
    for path in (folder.first_failure, folder.rank_state_file(0), folder.rank_exit_file(0), folder.stop_mark):
        path.parent.mkdir(parents=True, exist_ok=True)
    return folder


@hostile
def test_a_forged_first_failure_does_not_end_the_node(content: bytes, folder: RunFolder) -> None:
    folder.first_failure.write_bytes(content)
    record_first_failure(folder, "1", {"node": 0, "time_ns": 5})
    assert read_small_file(folder.first_failure) is not None


@hostile
def test_a_forged_exit_file_of_a_rank_is_not_a_success(content: bytes, folder: RunFolder) -> None:
    folder.rank_exit_file(0).write_bytes(content)
    assert take_rank_snapshot(folder, 0).code in (None, exit_codes.CRASHED)


@hostile
def test_a_forged_state_of_a_rank_is_of_no_process(content: bytes, folder: RunFolder) -> None:
    folder.rank_state_file(0).write_bytes(content)
    assert take_rank_snapshot(folder, 0).code is None


@hostile
def test_forged_objects_of_a_bucket_end_no_node(content: bytes, folder: RunFolder, server: S3Server) -> None:
    run = BucketRun(server.bucket(), f"job/{abs(hash(content))}", pause=lambda s: None)
    names = ("starts/x/owner", "starts/-1/owner", "starts/" + "9" * 5000 + "/owner", "starts/00001/owner/owner")
    for name in ("starts/00003/owner", *(name for name in names if len(name) < 900)):
        run.put(name, content)
    assert run.newest_attempt() == 3
    mirror = BucketMirror(run, folder, 1)
    for name in (
        "exit/0/first",
        "exit/0/node_00",
        "state/head",
        "state/link",
        "state/node_00",
        "metrics/rank_00.jsonl/1",
    ):
        run.put(name, content)
    mirror.download_marks()
    assert not mirror.exchange_addresses() or read_small_file(folder.rendezvous_file) is not None
    mirror.count_unfinished_nodes(2)
    mirror.download_progress()
    assert not (folder.path / "mark").exists()


@pytest.mark.parametrize("text", ["", "-1", "1e9", "٣", "1" * 20, " 1", "1\n", None, "0x1", "run[$(id)]"])
def test_a_number_is_digits_of_bounded_length_or_nothing(text: str | None) -> None:
    assert parse_count(text, 7) == 7


def test_a_number_is_read() -> None:
    assert parse_count("1769860800000000000") == 1769860800000000000
