"""Backend skypilot with its runs in a bucket: beside the stand-in, a managed job goes on from there; moto keeps it."""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobc.tests.backends.sky_jobs import Job, pids
from jobc.tests.storage.s3_server import S3Server
from jobc.tests.testbed import wait_for

STEPS = """
import hashlib, json, os, pathlib, sys, time
from jobc_trainer import checkpoint_store as store
rank, root = os.environ["RANK"], pathlib.Path(os.environ["JOBC_RUN_DIR"], "checkpoints")
folder, _ = store.newest_verified(root)
state = json.loads((folder / "state.json").read_text()) if folder and rank == "0" else {"step": 0, "weights": ""}
print("begins at", state["step"], flush=True)
while state["step"] < int(sys.argv[1]):
    time.sleep(0.3)
    state = {"step": state["step"] + 1, "weights": hashlib.sha256(json.dumps(state).encode()).hexdigest()}
    if state["step"] % 5 == 0 and rank == "0":
        store.save(root, state["step"], {"state.json": json.dumps(state).encode()}, keep=2)
print("ends with", state["weights"], flush=True)
"""


@pytest.fixture(scope="module")
def bucket() -> Iterator[S3Server]:
    with S3Server() as server:
        yield server


def test_a_managed_job_goes_on_from_its_bucket_and_is_stopped_through_it(
    folder: Path, bucket: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in bucket.environment.items():
        monkeypatch.setenv(name, value)
    keys = [f"secrets.{name}=env:{name}" for name in bucket.environment]
    words = (*bucket.overrides, *keys, "backend.managed=true", "backend.infra=aws", f"storage.scratch={folder}/scratch")
    job = Job(folder, *words, program="60")
    (folder / "program.py").write_text(STEPS)
    assert job("submit.sh", "--run-id", "first")[0] == 0
    wait_for(lambda: any(key.endswith("/MANIFEST.json") for key in bucket.listed()), "a checkpoint in the bucket")
    for pid in pids("depot.py", f"{folder}/scratch/node_01"):
        os.kill(pid, signal.SIGTERM)  # as when that machine is about to be taken away
    wait_for(lambda: "first/starts/00001/node_01" in " ".join(bucket.listed()), "the next attempt")
    wait_for(lambda: "done (exit 0)" in job("status.sh")[1], "its end")
    for node in (0, 1):
        assert not (folder / "scratch" / f"node_{node:02}" / "job" / "first" / "artifact" / "0").exists(), (
            "the bucket counts"
        )
    said = job("logs.sh", "--rank", "0")[1]
    state: dict[str, object] = {"step": 0, "weights": ""}
    for step in range(1, 61):
        state = {"step": step, "weights": hashlib.sha256(json.dumps(state).encode()).hexdigest()}
    assert f"ends with {state['weights']}" in said and "begins at 0" in said, said
    assert re.search("begins at [1-9]", said), said

    assert job("submit.sh", "--run-id", "second")[0] == 0
    wait_for(lambda: "second/state/node_01" in " ".join(bucket.listed()), "the start of another run")
    code, said = job("stop.sh")
    assert code == 0 and "stopped by stop.sh" in said and "cannot be reached" not in said, said
    assert job("clean.sh", "--keep", "0", "--yes")[0] == 0 and not bucket.listed()
