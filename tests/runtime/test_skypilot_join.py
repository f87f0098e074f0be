"""jobctl join on nodes of SkyPilot, with a stand-in for launch.sh: variables, attempt, signals, exit codes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jobc.backends.skypilot.engine.node import unfinished_node_count
from jobc.runtime.node.join_attempt import port_from_text
from jobc.runtime.run_folder.run import Run
from jobc.tests.packed import write_program

SETTINGS = {
    "name": "demo", "run_folder": "demo", "nodes": 2, "procs": 1, "gpus": 0, "gpu_type": None, "launcher": "spawn",
    "network": {"profile": "auto", "interface": None}, "rendezvous": {"backend": "static", "port": 0, "timeout_s": 60},
    "max_restarts": 0, "max_requeues": 1, "threads": 1, "grace_s": 1, "time_limit_s": 90, "python": "python3",
    "code": {"kind": "snapshot", "root": ".", "repository": None, "commit": None}, "uses_trainer": False,
    "parallel": "ddp", "shm_bytes": None, "secrets": {}, "env_aws": {}, "data": None, "workdir": None, "store": None,
    "caches": {"downloads": None, "compiled": None, "offline": False}, "storage": "shared",
}  # fmt: skip

# Exits with its code in CODES, on SIGTERM with 75, and records that in the run folder, as a supervisor does.
LAUNCH = """\
ends() {
  mkdir -p "$JOBC_RUN_DIR/exit/$JOBC_ATTEMPT"
  echo "$1" >"$JOBC_RUN_DIR/exit/$JOBC_ATTEMPT/node_0$JOBC_NODE_RANK"
  exit "$1"
}
codes=($CODES)
env | grep ^JOBC_ >"$JOBC_RUN_DIR/seen_$1"
echo "$2 on stderr" >&2
trap 'ends 75' TERM
touch "$JOBC_RUN_DIR/state/node_0$1" "$JOBC_RUN_DIR/up_$1"
sleep 1 # until the other node runs as well
for ((i = 0; i < 200; i++)); do [[ ${codes[$1]} != - ]] && ends "${codes[$1]}"; sleep 0.1; done
"""
ADDRESSES = ("10.0.0.0", "10.0.0.1", "10.0.0.2")
TASK = "sky-2026-01-01-00-00-00-000001_x_1"


class Nodes:
    """A sent artifact, and the nodes of its job, which share a home folder. codes: of launch.sh on each node; -: it
    runs until SIGTERM.
    """

    def __init__(self, folder: Path, codes: str, **settings: Any) -> None:
        self.home = folder
        artifact = self.artifact = folder / "sky_workdir/a/artifact/0"
        (artifact / ".jobc").mkdir(parents=True)
        job = {"node": {**SETTINGS, **settings}, "storage_root": "runs", "start_timeout_s": 20}
        (artifact / ".jobc/job.json").write_text(json.dumps(job))
        (artifact / "launch.sh").write_text(LAUNCH)
        write_program(artifact, uses_trainer=False, backend="skypilot")
        (folder / "sky_workdir/a/code").mkdir()
        (folder / "sky_workdir/a/code/train.py").write_text("print()\n")
        self.codes, self.run = codes, folder / "runs/demo/a"
        self.started: list[subprocess.Popen[str]] = []

    def start(self, rank: int, nodes: int = 2, **variables: str) -> subprocess.Popen[str]:
        environ = {
            "HOME": str(self.home), "PATH": os.environ["PATH"], "CODES": self.codes, "JOBC_RUN_ID": "a",
            "JOBC_ATTEMPT": "0", "JOBC_FORK_OF": "", "SKYPILOT_NODE_IPS": "\n".join(ADDRESSES[:nodes]),
            "SKYPILOT_NODE_RANK": str(rank), "SKYPILOT_NUM_GPUS_PER_NODE": "0", "SKYPILOT_TASK_ID": TASK,
        }  # fmt: skip
        words = [sys.executable, "-I", "-S", str(self.artifact / "jobctl"), "join"]
        process = subprocess.Popen(
            words, env={**environ, **variables}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self.started.append(process)
        return process

    def ends(self) -> list[tuple[int, str]]:
        """Exit code and output of each node that was started."""
        outputs = [process.communicate(timeout=60)[0] for process in self.started]
        return [(process.returncode, outputs[i]) for i, process in enumerate(self.started)]

    def wait_for(self, path: str) -> None:
        until = time.monotonic() + 30
        while not (self.run / path).exists():
            assert time.monotonic() < until, [process.poll() for process in self.started]
            time.sleep(0.05)

    def seen(self, rank: int) -> dict[str, str]:
        lines = (self.run / f"seen_{rank}").read_text().splitlines()
        return dict(line.split("=", 1) for line in lines)


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Any]:
    made: list[Nodes] = []

    def make(codes: str, **settings: Any) -> Nodes:
        made.append(Nodes(tmp_path, codes, **settings))
        return made[-1]

    yield make
    for process in [process for each in made for process in each.started if process.poll() is None]:
        process.kill()
        process.wait()


@pytest.mark.parametrize(
    ("codes", "exits", "said"),
    [
        ("0 0", (0, 0), ("0: done", "0: done")),
        ("0 65", (65, 0), ("65: invalid", "65: invalid")),
        ("75 1", (1, 0), ("1: crashed", "1: crashed")),
    ],
)
def test_node_0_exits_with_the_worst_code_and_the_others_with_0(
    nodes: Any, codes: str, exits: tuple[int, int], said: tuple[str, str]
) -> None:
    job = nodes(codes)
    for rank in (0, 1):
        job.start(rank)
    ends = job.ends()
    assert tuple(code for code, _ in ends) == exits, ends
    for rank, (_, output) in enumerate(ends):
        assert output.splitlines()[-1].startswith(f"jobc: node {rank} exited with {said[rank]}"), output
        assert "train on stderr\n" in output
    assert (job.run / "code/train.py").is_file() and (job.run / "artifact/0/launch.sh").is_file()


def test_launch_sh_gets_what_skypilot_and_submit_know(nodes: Any, tmp_path: Path) -> None:
    job = nodes("0 0")
    for rank in (0, 1):
        job.start(rank, JOBC_FORK_OF="old")
    ends = job.ends()
    assert [code for code, _ in ends] == [0, 0], ends
    expected = {
        "JOBC_NODE_RANK": "1", "JOBC_NODES": "2", "JOBC_NODE_LIST": "10.0.0.0,10.0.0.1", "JOBC_HEAD_ADDR": "10.0.0.0",
        "JOBC_HEAD_PORT": "0", "JOBC_JOB_ID": TASK, "JOBC_RUN_ID": "a", "JOBC_ATTEMPT": "0", "JOBC_TIME_LIMIT_S": "90",
        "JOBC_RUN_ROOT": f"{tmp_path}/runs", "JOBC_RUN_DIR": f"{tmp_path}/runs/demo/a",
        "JOBC_PROJECT": f"{tmp_path}/sky_workdir", "JOBC_INIT_FROM": f"{tmp_path}/runs/demo/old",
    }  # fmt: skip
    seen = job.seen(1)
    assert {name: seen.get(name) for name in expected} == expected


def test_nodes_without_shared_storage_take_the_attempt_of_submit_and_derive_a_port(nodes: Any) -> None:
    job = nodes("0 65", storage="node")
    for rank in (0, 1):
        job.start(rank, JOBC_ATTEMPT="2")
        job.wait_for(f"up_{rank}")  # both are in one folder here
    assert [code for code, _ in job.ends()] == [0, 65]
    assert {job.seen(rank)["JOBC_HEAD_PORT"] for rank in (0, 1)} == {str(port_from_text(TASK))}
    assert job.seen(0)["JOBC_ATTEMPT"] == "2" and (job.run / "artifact/2/launch.sh").is_file()
    assert (job.run / "code/train.py").is_file() and not [*job.run.glob(".code*")]


@pytest.mark.parametrize(
    ("change", "title"),
    [
        ({"nodes": 3}, "SkyPilot provides 3 nodes, but the job was compiled for 2"),
        ({"SKYPILOT_NUM_GPUS_PER_NODE": "1"}, "SkyPilot provides 1 GPUs per node, but the job was compiled for 0"),
        ({"SKYPILOT_NODE_IPS": ""}, "SKYPILOT_NODE_IPS is not set"),
    ],
)
def test_a_task_that_was_changed_by_hand_does_not_start(nodes: Any, change: dict[str, Any], title: str) -> None:
    job = nodes("0 0")
    job.start(0, **change)
    ((code, output),) = job.ends()
    assert code == (1 if "not set" in title else 65) and f"error: {title}\n  hint: " in output, output
    assert not job.run.exists()


def test_sigterm_while_it_waits_for_the_others_does_not_recover_a_managed_job(nodes: Any) -> None:
    job = nodes("0 0")
    job.start(0)
    job.wait_for(f"starts/0.{TASK}/0")
    job.started[0].send_signal(signal.SIGTERM)
    ((code, output),) = job.ends()
    assert code == 143 and output.endswith("jobc: node 0 exited with 75: stopped early\n"), output


def test_sigterm_reaches_launch_sh_and_the_nodes_agree(nodes: Any) -> None:
    job = nodes("- -")
    for rank in (0, 1):
        job.start(rank)
    for rank in (0, 1):
        job.wait_for(f"up_{rank}")
        job.started[rank].send_signal(signal.SIGTERM)
    ends = job.ends()
    assert [code for code, _ in ends] == [75, 0], ends
    assert all(output.endswith("exited with 75: stopped early\n") for _, output in ends)


def test_a_recovered_job_begins_the_next_attempt_until_the_limit(nodes: Any) -> None:
    job = nodes("75", nodes=1)
    for _ in range(3):
        job.start(0, nodes=1).wait(60)
    ends = job.ends()
    assert [code for code, _ in ends] == [75, 75, 1], ends
    assert "error: restart limit of 1 reached" in ends[-1][1]
    assert sorted(path.name for path in (job.run / "artifact").iterdir()) == ["0", "1"]


@pytest.mark.parametrize("code", [0, 1])
def test_a_check_leaves_its_run_folder_only_if_it_fails(nodes: Any, code: int) -> None:
    job = nodes(str(code), nodes=1)
    job.start(0, nodes=1, JOBC_PAYLOAD="smoke")
    ((exit_code, output),) = job.ends()
    assert exit_code == code and "smoke on stderr\n" in output, output
    assert (job.home / "runs/.checks/a").exists() == bool(code)


def test_a_secret_for_a_shell_is_saved_and_removed(nodes: Any, tmp_path: Path) -> None:
    job = nodes("0 0")
    words = [sys.executable, "-I", "-S", str(job.artifact / "jobctl"), "join"]
    environ = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    subprocess.run([*words, "secret", "/runs/a", "TOKEN"], input=b"hidden\n", env=environ, check=True)
    (saved,) = (tmp_path / ".jobc/secrets").glob("a-*/TOKEN")
    assert saved.read_text() == "hidden"
    subprocess.run([*words, "forget", "/runs/a"], env=environ, check=True)
    assert not saved.exists()
    empty = subprocess.run(
        [*words, "secret", "/runs/a", "TOKEN"], input=b"", env=environ, capture_output=True, check=False
    )
    assert empty.returncode == 65 and b"TOKEN is not set" in empty.stderr


@pytest.mark.parametrize(
    ("recorded", "code", "worst"),
    [
        ({"node_00": "0", "node_01": "0"}, 0, 0),
        ({"first": "65", "node_00": "69"}, 69, 65),
        ({"node_00": "75", "node_01": "71"}, 0, 71),
        ({"node_00": "0"}, 137, 1),
        ({"node_00": "0", "node_01": "0"}, 137, 0),
        ({"node_00": "143", "node_01": "0"}, 0, 0),
    ],
    ids=str,
)
def test_worst_exit_of_an_attempt(tmp_path: Path, recorded: dict[str, str], code: int, worst: int) -> None:
    folder = tmp_path / "exit/3"
    folder.mkdir(parents=True)
    for name, text in recorded.items():
        (folder / name).write_text(f"{text}\nreason=why\n")
    assert Run(tmp_path, 3).worst_recorded_code(code, 2) == worst


def test_a_node_lacks_while_it_may_still_record_its_exit_code(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "exit/0").mkdir(parents=True)
    for rank, age_s in enumerate((0, 100, 0, 0)):
        state = tmp_path / f"state/node_{rank:02}"
        state.write_text("host=elsewhere\nboot=x\npid_namespace=1\npid=1\nstart_ticks=1\n")
        os.utime(state, (time.time() - age_s,) * 2)
    (tmp_path / "exit/0/node_00").write_text("0\n")
    count = unfinished_node_count(Run(tmp_path, 0), 3)
    assert count == 1, "node 0 has ended, node 1 is silent, node 3 is not of the job"
