"""A folder of another user at the path of a sweep's point is named, and never read, signalled or removed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from jobc.runtime.engines.artifact_location import Place
from jobc.runtime.engines.hosts_engine import HostsEngine
from jobc.runtime.engines.new_run import create_run
from jobc.runtime.engines.sweep_engine import SweepEngine
from jobc.tests.packed import compile_here

from .users import NEIGHBOUR, SYSTEM_PATH, Ended, SharedJob, make_shared_job

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
WORDS = ("-m", "name=demo", "seed=0,1", "procs=1", "launcher=spawn", "backend=ssh", "hosts=[127.0.0.1]",
         "storage.run=node", "code=none", "--", "python3", "program.py")  # fmt: skip
BELONGS = f"belongs to uid {NEIGHBOUR}"


class Sweep:
    """A sweep with a run whose points were never started. No host responds."""

    def __init__(self, job: SharedJob) -> None:
        self.job, self.mark = job, job.folder / "mark"
        (job.folder / "bin").mkdir()
        (job.folder / "bin/ssh").write_text("#!/bin/sh\nexit 255\n")
        (job.folder / "bin/ssh").chmod(0o755)
        place = Place(job.folder / "artifacts/demo+sweep/ssh")
        new = create_run(place, SweepEngine(HostsEngine(place.job)), "a")
        new.write_description("")
        self.run = new.run.path

    def __call__(self, *words: str) -> Ended:
        program = self.job.folder / "artifacts/demo+sweep/ssh/jobctl"
        return self.job.call(str(program), *words, PATH=f"{self.job.folder}/bin:{SYSTEM_PATH}")

    def plant(self, **keys: str) -> Path:
        """Create the neighbour's run at the path of point 1. Its artifact names a program to run. keys: node 0's"""
        run = self.job.folder / f"runs/demo+seed=1/{self.run.name}-1"
        for name in ("state", "control", "artifact/0/.jobc"):
            (run / name).mkdir(parents=True)
        settings = {"job": "demo+seed=1", "runs": "runs", "backend": "ssh", "nodes": 1, "procs": 1, "grace_s": 1}
        command = ["/bin/sh", "-c", f"touch {self.mark}", "x"]
        settings.update(storage="node", hosts={"ssh_command": command, "fanout": 1})
        (run / "artifact/0/.jobc/job.json").write_text(json.dumps(settings))
        (run / "artifact/0/hosts.txt").write_text("127.0.0.1\n")
        (run / "state/run").write_text("job=demo+seed=1\n")
        node = {"host": "away", "boot": "1", "pid_namespace": "1", "pid": "1", "start_ticks": "1", "attempt": "0"}
        (run / "state/node_00").write_text("".join(f"{key}={value}\n" for key, value in {**node, **keys}.items()))
        subprocess.run(["chown", "-R", str(NEIGHBOUR), run.parent], check=True)
        return run


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("compiled")
    compile_here(folder, *WORDS)
    return folder / "artifacts"


@pytest.fixture
def sweep(artifacts: Path, tmp_path: Path) -> Sweep:
    job = make_shared_job(tmp_path, "")
    shutil.copytree(artifacts, tmp_path / "artifacts")
    return Sweep(job)


LIVE: dict[str, str] = {}
DONE = {"ended": "5", "exit": "0"}


@pytest.mark.parametrize("verb", ["stop", "status", "logs", "shell"])
def test_no_program_of_a_planted_point_runs(sweep: Sweep, verb: str) -> None:
    sweep.plant()
    done = sweep(verb)
    one = sweep(verb, "--point", "1", *(["--", "true"] if verb == "shell" else []))
    assert not sweep.mark.exists()
    assert one.code == 1 and BELONGS in one.output and "Traceback" not in done.output + one.output
    assert verb not in ("status", "stop") or ("1  seed=1  " in done.output and "belongs to uid" in done.output)


@pytest.mark.parametrize("keys", [LIVE, DONE])
def test_a_planted_point_is_no_point_that_was_started(sweep: Sweep, keys: dict[str, str]) -> None:
    run = sweep.plant(**keys)
    done = sweep("submit", "--resume", sweep.run.name)
    assert done.code == 1 and f"point 1  seed=1: not started: error: {run} exists, and {BELONGS}" in done.output
    rows = json.loads(sweep("status", "--format", "json").output)["points"]
    assert [row["state"] for row in rows] == ["not started", "of another user"]


@pytest.mark.parametrize("keys", [LIVE, DONE])
def test_clean_removes_the_sweep_and_leaves_a_planted_point(sweep: Sweep, keys: dict[str, str]) -> None:
    run = sweep.plant(**keys)
    done = sweep("clean", "--keep", "0", "--yes")
    assert done.code == 0 and not sweep.run.exists() and run.exists(), done.output
    assert not sweep.mark.exists()
