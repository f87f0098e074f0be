"""metrics/rank_NN.jsonl on a disk that is full, or full for a while: lines may be lost, other files never suffer."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jobc.trainer.loop.metrics import RankMetricsFile, read_metrics, rotated_files


def full_at(call: str, times: set[int], monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """os.CALL finds no room, those of its next calls that `times` names; the function ends that."""
    real, calls = getattr(os, call), iter(range(1, 1000))

    def replaced(*arguments: Any, **named: Any) -> Any:
        if next(calls) in times:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(*arguments, **named)

    monkeypatch.setattr(os, call, replaced)
    return lambda: monkeypatch.setattr(os, call, real)


@pytest.mark.parametrize(
    ("call", "times"),
    [
        pytest.param("open", {1}, id="the new file cannot be made"),
        pytest.param("rename", {1}, id="the full one cannot be put aside"),
    ],
)
def test_a_disk_that_is_full_when_a_file_is_put_aside_costs_no_line_and_harms_no_other_file(
    call: str, times: set[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = RankMetricsFile(tmp_path, 0, flush_s=0, max_bytes=30)
    for step in (1, 2):
        file.write({"step": step})
    has_room = full_at(call, times, monkeypatch)
    file.write({"step": 3})
    has_room()
    weights = os.open(tmp_path / "weights.pt", os.O_WRONLY | os.O_CREAT)  # takes the number of whatever was closed
    for step in (4, 5, 6):
        file.write({"step": step})
    os.close(weights)
    assert (tmp_path / "weights.pt").read_bytes() == b""
    assert [line["step"] for line in read_metrics(file.path)] == [1, 2, 3, 4, 5, 6]
    assert sorted(path.name for path in file.path.parent.iterdir()) == [
        "rank_00.jsonl", *(path.name for path in rotated_files(file.path))
    ]  # fmt: skip
    assert rotated_files(file.path)  # put aside after all, once there was room
    assert capsys.readouterr().err.count("warning: the full metrics file cannot be rotated: ") == 1


def test_a_disk_that_is_full_when_a_run_begins_costs_lines_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    has_room = full_at("open", {1, 2}, monkeypatch)
    file = RankMetricsFile(tmp_path, 0, flush_s=0, max_bytes=1000)
    file.write({"step": 1})
    has_room()
    file.write({"step": 2})
    assert [line["step"] for line in read_metrics(file.path)] == [2]
    assert capsys.readouterr().err.count("No space left on device") == 1


def test_a_line_torn_by_a_full_disk_is_ended_once_there_is_room(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = RankMetricsFile(tmp_path, 0, flush_s=0, max_bytes=1000)
    file.write({"step": 1})
    unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (file.path.stat().st_size + 4, unlimited[1]))  # EFBIG, as a full disk
    try:
        file.write({"step": 2})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
    assert file.path.read_text() == '{"step": 1}\n{"st'
    file.write({"step": 3})
    assert [line["step"] for line in read_metrics(file.path)] == [1, 3]
    assert "warning: metrics are not written: " in capsys.readouterr().err
