"""jobctl join in pods of Kubernetes, with a stand-in for launch.sh: unpacking, variables, attempt, checks, signals."""

from __future__ import annotations

import bz2
import io
import json
import os
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from jobc.backends.kubernetes.config_map import start_script
from jobc.runtime.node.join_attempt import port_from_text
from jobc.tests.packed import write_program

SETTINGS = {
    "name": "demo", "run_folder": "demo", "nodes": 1, "procs": 1, "gpus": 0, "gpu_type": None, "launcher": "spawn",
    "network": {"profile": "auto", "interface": None}, "rendezvous": {"backend": "static", "port": 0, "timeout_s": 60},
    "max_restarts": 0, "max_requeues": 1, "threads": 1, "grace_s": 1, "time_limit_s": 90, "python": "python3",
    "code": {"kind": "image", "root": ".", "repository": None, "commit": None}, "uses_trainer": False,
    "parallel": "ddp", "shm_bytes": None, "secrets": {}, "env_aws": {}, "data": None, "workdir": None, "store": None,
    "caches": {"downloads": None, "compiled": None, "offline": False}, "storage": "shared",
}  # fmt: skip
LAUNCH = """\
echo "launch $0 $*"
env | grep ^JOBC_ | sort
pwd
exit "${CODE:-0}"
"""
UID = "6f3b2c1e-77aa-4c02"


class Pods:
    """The folder /jobc of the pods of a job, and a volume that they share."""

    def __init__(self, folder: Path, engine: Mapping[str, Any] = {}, **settings: Any) -> None:
        self.folder, self.runs, self.image = folder, folder / "runs", folder / "image"
        files = folder / "jobc/files"
        self.image.mkdir()
        data = folder / "jobc/files/..2026_01_01"  # as the kubelet mounts a ConfigMap
        data.mkdir(parents=True)
        program = write_program(folder, uses_trainer=False, backend="kubernetes")
        (data / "jobctl.bz2").write_bytes(bz2.compress(program.read_bytes()))
        (data / "start.py").write_text(start_script().text)
        (data / "launch.sh").write_text(LAUNCH)
        node = {**SETTINGS, **settings}
        job = {"node": node, "start_timeout_s": 20, "node_list": "demo-[0-1]", "has_user_id": False}
        job |= {"creates": {"object": "demo"}, "head": "localhost"}
        self.artifact.mkdir()
        job |= {"storage_root": str(self.runs), "preflight": False, **engine}
        (data / ".jobc--job.json").write_text(json.dumps(job))
        for name in os.listdir(data):
            (files / name).symlink_to(f"..2026_01_01/{name}")
        self.processes: list[subprocess.Popen[str]] = []

    @property
    def artifact(self) -> Path:
        return self.folder / "jobc/artifact"

    @property
    def run(self) -> Path:
        return self.runs / "demo/r"

    def start(self, *words: str, **environment: str) -> subprocess.Popen[str]:
        given = {
            "PATH": os.environ["PATH"], "JOBC_PAYLOAD": "train", "JOBC_RUN_ID": "r", "JOBC_FORK_OF": "",
            "JOBC_JOB_UID": UID, "JOB_COMPLETION_INDEX": "0", **environment,
        }  # fmt: skip
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(self.folder / "jobc/files/start.py"), *words], env=given,
            cwd=self.image, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        self.processes.append(process)
        return process

    def call(self, *words: str, **environment: str) -> tuple[int, str]:
        process = self.start(*words, **environment)
        output = process.communicate(timeout=30)[0]
        return process.returncode, output


@pytest.fixture
def pods(tmp_path: Path) -> Pods:
    return Pods(tmp_path)


@pytest.fixture
def two_pods(tmp_path: Path) -> Iterator[Pods]:
    pods = Pods(tmp_path, nodes=2)
    yield pods
    for process in pods.processes:
        process.kill()
        process.communicate()


def test_a_pod_unpacks_the_artifact_and_becomes_launch_sh_of_its_attempt(pods: Pods) -> None:
    code, output = pods.call()
    assert code == 0
    copy = pods.run / "artifact/0"
    assert output.startswith(f"launch {pods.artifact}/launch.sh 0 train\n")
    names = ["jobc/job.json", "jobctl", "launch.sh"]
    for folder in (pods.artifact, copy):
        files = sorted(path.relative_to(folder).as_posix().lstrip(".") for path in folder.rglob("*") if path.is_file())
        assert files == names
        assert os.access(folder / "jobctl", os.X_OK)
    variables = dict(line.partition("=")[::2] for line in output.split("\n") if "=" in line)
    assert variables["JOBC_RUN_DIR"] == str(pods.run)
    assert variables["JOBC_PROJECT"] == str(pods.image)
    assert (variables["JOBC_ATTEMPT"], variables["JOBC_NODES"]) == ("0", "1")
    assert variables["JOBC_NODE_LIST"] == "demo-[0-1]"
    assert "JOBC_INIT_FROM" not in variables
    assert (pods.run / "state/resume").read_text() == "command=jobctl submit --resume r\n"


def test_the_exit_code_is_that_of_launch_sh_and_a_replaced_pod_begins_the_next_attempt(pods: Pods) -> None:
    assert pods.call(CODE="75")[0] == 75
    code, output = pods.call(CODE="69")
    assert (code, output.split("\n")[0]) == (69, f"launch {pods.artifact}/launch.sh 0 train")
    code, output = pods.call()
    assert (code, output) == (
        1,
        "error: restart limit of 1 reached\n  hint: raise lifecycle.max_requeues\n",
    )
    assert (pods.run / "exit/1/node_00").read_text().startswith("1\n")


def test_a_job_without_an_id_is_named_after_the_object(pods: Pods) -> None:
    assert f"JOBC_RUN_ID=kubernetes-6f3b2c1e\nJOBC_RUN_ROOT={pods.runs}\n" in pods.call(JOBC_RUN_ID="")[1]


def test_a_forked_run_begins_with_the_checkpoint_of_the_other_also_when_it_is_restarted(pods: Pods) -> None:
    assert f"JOBC_INIT_FROM={pods.runs}/demo/other\n" in pods.call(JOBC_FORK_OF="other")[1]
    assert f"JOBC_INIT_FROM={pods.runs}/demo/other\n" in pods.call(JOBC_JOB_UID="b-1")[1]


@pytest.mark.parametrize("code", [0, 65])
def test_a_check_prints_its_exit_code_and_leaves_a_run_folder_only_if_it_failed(pods: Pods, code: int) -> None:
    ended, output = pods.call("smoke", CODE=str(code), JOBC_PAYLOAD="smoke")
    run = pods.runs / ".checks/r"
    assert (ended, output.split("\n")[0]) == (0, f"launch {pods.artifact}/launch.sh 0 smoke")
    assert output.endswith(f"jobc: payload exit code: {code}\n")
    assert run.exists() == (code != 0)
    assert not pods.run.exists()


def test_a_shell_opens_in_the_newest_attempt_or_without_a_run(pods: Pods) -> None:
    output = pods.call("shell", "ls", "-l")[1]
    assert output.startswith(f"launch {pods.artifact}/launch.sh 0 shell ls -l\n")
    assert "JOBC_RUN_DIR=\n" in output and "JOBC_HEAD_ADDR=127.0.0.1\n" in output
    assert not pods.runs.exists()
    pods.call()
    output = pods.call("shell")[1]
    assert output.startswith(f"launch {pods.artifact}/launch.sh 0 shell\n")
    assert f"JOBC_RUN_DIR={pods.run}\n" in output


def test_pods_meet_on_the_volume(two_pods: Pods) -> None:
    first = two_pods.start(JOB_COMPLETION_INDEX="1")
    assert first.stdout is not None
    assert first.stdout.readline() == "jobc: node 1 is ready, waiting for 0\n"
    assert two_pods.call()[0] == 0
    assert first.communicate(timeout=20)[0].startswith(f"launch {two_pods.artifact}/launch.sh 1 train\n")


@pytest.mark.parametrize(("is_stopped", "code"), [(False, 75), (True, 0)])
def test_sigterm_ends_a_pod_that_waits(two_pods: Pods, is_stopped: bool, code: int) -> None:
    waiting = two_pods.start(JOB_COMPLETION_INDEX="1")
    assert waiting.stdout is not None
    assert "waiting for 0" in waiting.stdout.readline()
    if is_stopped:
        (two_pods.run / "control").mkdir(parents=True)
        (two_pods.run / "control/STOP").touch()
    waiting.send_signal(signal.SIGTERM)
    assert waiting.wait(20) == code


@pytest.mark.parametrize("preflight", [True, False])
def test_a_pod_that_starts_after_a_stop_ends_at_once_and_one_of_a_resume_does_not(
    tmp_path: Path, preflight: bool
) -> None:
    pods = Pods(tmp_path, {"preflight": preflight}, nodes=2)
    (pods.run / "control").mkdir(parents=True)
    (pods.run / "control/STOP").write_text(f"{UID}\n")
    code, output = pods.call(JOB_COMPLETION_INDEX="1", JOBC_HEAD_ADDR="gone.invalid")
    assert (code, output) == (0, "jobc: the run was stopped: this node exits with 0\n")
    (pods.run / f"starts/0.{UID}").mkdir(parents=True)
    first = pods.start(JOB_COMPLETION_INDEX="1", JOBC_JOB_UID="another")
    assert first.stdout is not None
    try:
        if not preflight:
            assert first.stdout.readline() == "jobc: node 1 is ready, waiting for 0\n"
    finally:
        first.kill()
        first.communicate()


def test_a_pod_that_waits_for_the_name_of_node_0_sees_the_stop(tmp_path: Path) -> None:
    pods = Pods(tmp_path, {"preflight": True}, nodes=2)
    late = pods.start(JOB_COMPLETION_INDEX="1", JOBC_HEAD_ADDR="gone.invalid")
    (pods.run / "control").mkdir(parents=True)
    (pods.run / "control/STOP").write_text(f"{UID}\n")
    assert late.communicate(timeout=20)[0].endswith("jobc: the run was stopped: this node exits with 0\n")


@pytest.mark.parametrize(("code", "expected"), [(0, "node 00 has already finished"), (65, "restarting would not help")])
def test_a_replaced_pod_does_not_wait_for_a_node_0_that_has_ended_for_good(
    tmp_path: Path, code: int, expected: str
) -> None:
    pods = Pods(tmp_path, {"preflight": True, "start_timeout_s": 600}, nodes=2)
    (pods.run / f"starts/0.{UID}/1").mkdir(parents=True)
    (pods.run / "exit/0").mkdir(parents=True)
    (pods.run / "exit/0/node_00").write_text(f"{code}\n")
    ended, output = pods.call(JOB_COMPLETION_INDEX="1", JOBC_HEAD_ADDR="gone.invalid")
    assert ended in (1, 65) and expected in output, output


def test_pods_with_runs_of_their_own_derive_one_port_and_do_not_wait(tmp_path: Path) -> None:
    pods = Pods(tmp_path, nodes=2, storage="node")
    code, output = pods.call(JOBC_HEAD_ADDR="localhost")  # the names of all nodes resolve
    assert code == 0
    assert f"JOBC_HEAD_PORT={port_from_text(UID)}\n" in output
    assert not (pods.run / "state/resume").exists()


def test_code_that_was_sent_is_unpacked_before_the_ranks_start(tmp_path: Path) -> None:
    pods = Pods(tmp_path, code={"kind": "snapshot", "root": ".", "repository": None, "commit": None})
    code, output = pods.call()
    assert (code, output.split("\n")[0]) == (65, "error: the code was not sent with this job")
    (tmp_path / "jobc/code").mkdir()
    with tarfile.open(tmp_path / "jobc/code/code.tar.gz", "w:gz") as archive:
        for name, mode in (("./train.py", 0o644), ("./run", 0o755)):
            entry = tarfile.TarInfo(name)
            entry.mode, entry.size = mode, 2
            archive.addfile(entry, io.BytesIO(b"x\n"))
    assert pods.call()[0] == 0
    assert (pods.run / "code/train.py").read_text() == "x\n"
    assert os.access(pods.run / "code/run", os.X_OK)
    assert sorted(path.name for path in pods.run.iterdir() if path.name.startswith(".")) == []


def test_a_pod_checks_a_start_of_ranks_if_the_job_asks_for_it(tmp_path: Path) -> None:
    (tmp_path / "good").mkdir()
    good = Pods(tmp_path / "good", {"preflight": True})
    assert good.call()[1].startswith("launch ")
    (tmp_path / "bad").mkdir()
    bad = Pods(tmp_path / "bad", {"preflight": True, "storage_root": "/proc/x"})
    code, output = bad.call()
    assert code == 1 and "FAIL" in output and "\nnot ready: " in output
    assert output.endswith("jobc: this pod cannot start the job: this node exits with 1\n")
    assert "not ready" not in bad.call("smoke", JOBC_PAYLOAD="smoke")[1]


def test_a_pod_whose_files_cannot_be_unpacked_says_why(pods: Pods) -> None:
    for file in (pods.folder / "jobc/files").glob("..*/jobctl.bz2"):
        file.write_bytes(b"not compressed")
    code, output = pods.call()
    assert code == 1 and output.startswith("error: cannot unpack the job: ")
