"""Backend skypilot with runs in a bucket (moto): on the stand-in, a managed job resumes from the bucket."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from jobc.tests.backends.sky_jobs import Job, pids, pids_of
from jobc.tests.storage.s3_server import S3Server
from jobc.tests.testbed import wait_for

STEPS = """
import hashlib, json, os, pathlib, sys, time
from jobc_trainer.checkpoint import store
rank, root = os.environ["RANK"], pathlib.Path(os.environ["JOBC_RUN_DIR"], "checkpoints")
folder = next(iter(store.checkpoints_newest_first(root)), None)
state = json.loads((folder / "state.json").read_text()) if folder and rank == "0" else {"step": 0, "weights": ""}
print("begins at", state["step"], flush=True)
while state["step"] < int(sys.argv[1]):
    time.sleep(0.3)
    state = {"step": state["step"] + 1, "weights": hashlib.sha256(json.dumps(state).encode()).hexdigest()}
    if state["step"] % 5 == 0 and rank == "0":
        store.save_checkpoint(root, state["step"], {"state.json": json.dumps(state).encode()}, keep=2)
print("ends with", state["weights"], flush=True)
"""


MANAGED = ("backend.managed=true", "backend.infra=aws")


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    """Run the server, with its keys in the shell that submits."""
    with S3Server() as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        yield server


def in_bucket(bucket: S3Server, folder: Path) -> tuple[str, ...]:
    """Runs there, and beside it in a folder of each node, as words of the command line."""
    keys = [f"secrets.{name}=env:{name}" for name in bucket.environment]
    return (*bucket.overrides, *keys, *MANAGED, f"storage.scratch={folder}/scratch")


def signal_all(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


@dataclass
class Training:
    """The run `first`, whose ranks can be held: what is done next meets a live run, however fast."""

    folder: Path
    bucket: S3Server

    def steps(self) -> set[str]:
        """Return the steps of the checkpoints that are in the bucket."""
        found = (re.search(r"first/checkpoints/(step_\d+)/MANIFEST.json", key) for key in self.bucket.listed())
        return {match[1] for match in found if match}

    def hold(self, attempt: int) -> None:
        """When it has gone on in that attempt, and what it has saved is in the bucket."""
        before, run = self.steps(), self.folder / "scratch" / "node_00" / "job" / "first"
        wait_for(lambda: (run / "exit").exists() and f"attempt={attempt}" in text(run / "state" / "node_00"), "it", 120)
        saved = run / "checkpoints"
        wait_for(lambda: bool({path.name for path in saved.glob("step_*")} - before), "a checkpoint", 120)
        signal_all(pids_of(self.folder, "RANK="), signal.SIGSTOP)
        assert "ends with" not in text(run / "logs" / "rank_00.log"), "it was over before it could be held"
        wait_for(lambda: bool(self.steps() - before), "the checkpoint in the bucket")


def text(file: Path) -> str:
    return file.read_text(errors="replace") if file.exists() else ""


def weights_after(steps: int) -> str:
    state: dict[str, object] = {"step": 0, "weights": ""}
    for step in range(1, steps + 1):
        state = {"step": step, "weights": hashlib.sha256(json.dumps(state).encode()).hexdigest()}
    return str(state["weights"])


@pytest.mark.slow
def test_a_training_outlives_a_machine_that_is_gone_and_a_killed_rank(folder: Path, bucket: S3Server) -> None:
    """With the trainer: test_pods_and_bucket.py."""
    job = Job(folder, *in_bucket(bucket, folder), program="30")
    (folder / "program.py").write_text(STEPS)
    training = Training(folder, bucket)
    assert job("submit", "--run-id", "first")[0] == 0

    training.hold(attempt=0)
    while machine := pids_of(folder, "SKYPILOT_NODE_RANK=1"):
        signal_all(machine, signal.SIGKILL)
    signal_all(pids_of(folder, "RANK="), signal.SIGCONT)
    training.hold(attempt=1)  # SkyPilot has begun it by itself

    ranks = [pid for pid in pids_of(folder, "RANK=1") if pid not in pids("jobctl\0rank")]
    signal_all(ranks, signal.SIGKILL)
    signal_all(pids_of(folder, "RANK="), signal.SIGCONT)
    state = folder / ".stand_in_sky" / "managed" / "1.json"
    wait_for(lambda: "FAILED" in text(state), "the end of what is never tried again", 300)
    status = job("status")[1]
    assert "failed (exit 1: crashed)" in status and "rank 1 failed first (exit 1: killed by SIGKILL" in status, status
    assert not any("first/starts/00002" in key for key in bucket.listed())

    code, said = job("submit", "--wait", "--resume", "first")
    assert code == 0, said
    log = job("logs", "--rank", "0")[1]
    assert [f"attempt {number}, rank 0" in log for number in range(4)] == [True, True, True, False], log
    assert re.findall(r"ends with (\w+)", log) == [weights_after(30)], log


def test_a_node_whose_depot_is_killed_is_lost_at_once(folder: Path, bucket: S3Server) -> None:
    node = 1
    job = Job(folder, *in_bucket(bucket, folder), program="1000")
    (folder / "program.py").write_text(STEPS)
    assert job("submit", "--run-id", "first")[0] == 0
    wait_for(lambda: any(key.endswith("/MANIFEST.json") for key in bucket.listed()), "a checkpoint in the bucket")
    signal_all(pids("jobctl\0depot", f"{folder}/scratch/node_{node:02}"), signal.SIGKILL)
    log = folder / ".stand_in_sky" / "managed" / "1.log"
    wait_for(lambda: f"node {node}'s depot.py was killed" in text(log), "word of it", 15)
    wait_for(lambda: "Job recovers after" in text(log), "the recovery", 120)
    codes = [75, 75]
    codes[node] = 69
    assert f"Job recovers after {codes}" in text(log)
    subprocess.run(["sky", "jobs", "cancel", "--yes", "1"], env=job.environment, check=True)
    wait_for(lambda: not pids_of(folder, "JOBC_NODE_RANK="), "no process of it anywhere", 120)


def test_a_managed_job_goes_on_from_its_bucket_and_is_stopped_through_it(folder: Path, bucket: S3Server) -> None:
    job = Job(folder, *in_bucket(bucket, folder), program="60")
    (folder / "program.py").write_text(STEPS)
    assert job("submit", "--run-id", "first")[0] == 0
    wait_for(lambda: any(key.endswith("/MANIFEST.json") for key in bucket.listed()), "a checkpoint in the bucket")
    # as when that machine is about to be taken away
    signal_all(pids("jobctl\0depot", f"{folder}/scratch/node_01"), signal.SIGTERM)
    wait_for(lambda: "first/starts/00001/node_01" in " ".join(bucket.listed()), "the next attempt")
    wait_for(lambda: "done (exit 0)" in job("status")[1], "its end")
    for node in (0, 1):
        assert not (folder / "scratch" / f"node_{node:02}" / "job" / "first" / "artifact" / "0").exists(), (
            "the bucket counts"
        )
    said = job("logs", "--rank", "0")[1]
    assert f"ends with {weights_after(60)}" in said and "begins at 0" in said, said
    assert re.search("begins at [1-9]", said), said

    assert job("submit", "--run-id", "second")[0] == 0
    wait_for(lambda: "second/state/node_01" in " ".join(bucket.listed()), "the start of another run")
    code, said = job("stop")
    assert code == 0 and "stopped by jobctl stop" in said and "cannot be reached" not in said, said
    assert job("clean", "--keep", "0", "--yes")[0] == 0 and not bucket.listed()


def test_a_run_that_ended_unseen_is_told_from_its_bucket(
    folder: Path, bucket: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Job(folder, *in_bucket(bucket, folder), "backend.managed=false", "nodes=1", program="1")
    (folder / "program.py").write_text(STEPS)
    assert job("submit", "--run-id", "first")[0] == 0
    wait_for(lambda: "RUNNING" not in text(folder / ".stand_in_sky" / "job" / "1.json"), "its end", 120)
    subprocess.run(["sky", "down", "--yes", "job"], env=job.environment, check=True)
    with monkeypatch.context() as without_keys:
        without_keys.delenv("AWS_SECRET_ACCESS_KEY")
        said = job("status", "--all")[1]
        assert "its result is unknown here; see the run's exit/ and logs/ in the bucket" in said, said
    assert job("status", "--all")[1].endswith(" done (exit 0)\n")
    assert "ends with" in job("logs", "--rank", "0")[1]
