"""The real MLflow and Weights & Biases, without network: a run with two attempts is a single run there."""

from __future__ import annotations

import json
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import mlflow
import pytest
from wandb.proto import wandb_internal_pb2

from jobc.trainer import trackers
from jobc.trainer.trackers import TrackedRun, Trackers

CONFIG = {"seed": 0, "model": {"kind": "gpt", "layers": 2}}


def two_attempts(name: str, folder: Path) -> None:
    """Train steps 1 to 4, then stop early; the next attempt begins after step 2."""
    for done, steps in ((0, (1, 2, 3, 4)), (2, (3, 4, 5))):
        trackers = Trackers([name], TrackedRun("20260101-000000", "hello", folder, done, CONFIG))
        for step in steps:
            trackers.log(step, {"train/loss": 10.0 * (done > 0) + step})
        trackers.close(done=steps[-1] == 5)
        time.sleep(1)  # W&B calls a folder by the second


def test_mlflow_has_one_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    two_attempts("mlflow", tmp_path)
    assert "warning" not in capfd.readouterr().err
    client = mlflow.MlflowClient(tracking_uri=(tmp_path / "mlruns").as_uri())
    experiment = client.get_experiment_by_name("hello")
    (run,) = client.search_runs([experiment.experiment_id])
    assert run.info.run_name == "20260101-000000" and run.info.status == "FINISHED"
    assert run.data.params == {"seed": "0", "model.kind": "gpt", "model.layers": "2"}
    told = [(metric.step, metric.value) for metric in client.get_metric_history(run.info.run_id, "train/loss")]
    assert sorted(told) == [(1, 1.0), (2, 2.0), (3, 3.0), (3, 13.0), (4, 4.0), (4, 14.0), (5, 15.0)]


@pytest.mark.parametrize("uri", [None, "file:{}/server"])
def test_mlflow_warns_where_each_attempt_has_a_folder_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], uri: str | None
) -> None:
    monkeypatch.setenv("JOBC_STORE", "s3://bucket/runs")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    if uri:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", uri.format(tmp_path))
    trackers.tracker_factory("mlflow")(TrackedRun("20260101-000000", "hello", tmp_path, 0, CONFIG)).close(done=True)
    told = [line for line in capfd.readouterr().err.splitlines() if line.startswith("warning: tracker mlflow")]
    line = (
        "warning: tracker mlflow: each attempt becomes a separate run; set MLFLOW_TRACKING_URI to a server to combine "
        "these runs"
    )
    assert told == ([] if uri else [line])


def test_weights_and_biases_has_one_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.setattr(trackers, "CLOSE_S", 120.0)  # it starts a process of its own, which takes its time
    two_attempts("wandb", tmp_path)
    assert "warning" not in capfd.readouterr().err
    files = sorted((tmp_path / "wandb").glob("offline-run-*/*.wandb"))
    assert {file.name for file in files} == {"run-20260101-000000.wandb"}
    found = [records(file) for file in files]
    assert [(run.project, run.run_id) for run, _, _ in found] == [("hello", "20260101-000000")] * len(files)
    assert [losses for _, losses, _ in found] == [[1.0, 2.0, 3.0, 4.0], [13.0, 14.0, 15.0]]
    assert [code for _, _, code in found] == [1, 0]


def records(file: Path) -> tuple[wandb_internal_pb2.RunRecord, list[float], int | None]:
    """Return an offline run's record, losses and exit code."""
    run, losses, code = wandb_internal_pb2.RunRecord(), [], None
    for data in entries(file.read_bytes()):
        record = wandb_internal_pb2.Record()
        record.ParseFromString(data)
        if record.HasField("run"):
            run = record.run
        if record.HasField("exit"):
            code = record.exit.exit_code
        if record.HasField("history"):
            values = {item.key or "/".join(item.nested_key): item.value_json for item in record.history.item}
            losses.append(float(json.loads(values["train/loss"])))
    return run, losses, code


def entries(content: bytes) -> Iterator[bytes]:
    """Yield the entries of a .wandb file: seven bytes, then LevelDB's log format (github.com/google/leveldb,
    doc/log_format.md).
    """
    size, first, last, whole = 32768, 2, 4, 1
    at, parts = 7, b""
    while at + 7 <= len(content):
        if size - at % size < 7:
            at += size - at % size
            continue
        length, kind = struct.unpack_from("<HB", content, at + 4)
        piece, at = content[at + 7 : at + 7 + length], at + 7 + length
        parts = piece if kind in (whole, first) else parts + piece
        if kind in (whole, last):
            yield parts
