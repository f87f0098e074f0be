"""What a program sees of its launcher, and what the head node prints about a run."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from jobc.runtime.ranks.rank import parse_rank_command
from jobc.runtime.supervisor.node_output import run_header_lines, warn_about_few_cores
from jobc.runtime.system.gpus import describe_gpus

from .conftest import Job

PROGRAM = ("import os, sys; print('got', *sys.argv[1:], 'at', os.environ['LOCAL_RANK'])",)


@pytest.mark.engine
def test_torch_distributed_launch_gives_the_program_its_local_rank(job: Callable[..., Job]) -> None:
    demo = job(launcher="torch_distributed_launch")
    (demo.folder / "train.py").write_text(*PROGRAM)
    demo = job(launcher="torch_distributed_launch", command=(sys.executable, str(demo.folder / "train.py"), "$x"))
    code, output = demo.run("submit")
    assert code == 0, output
    for rank in range(2):
        text = (demo.only_run / f"logs/rank_{rank:02}.log").read_text()
        assert re.search(rf"^got --local[-_]rank={rank} \$x at {rank}$", text, re.MULTILINE), text


def test_a_torch_without_that_launcher_is_named(job: Callable[..., Job], monkeypatch: pytest.MonkeyPatch) -> None:
    demo = job(launcher="torch_distributed_launch")
    later = demo.folder / "later"
    (later / "torch").mkdir(parents=True)
    (later / "torch" / "__init__.py").write_text("")
    monkeypatch.setenv("PYTHONPATH", str(later))
    code, output = demo.run("submit")
    assert code == 65 and f"the torch in {later}/torch no longer has torch.distributed.launch" in output, output
    assert "launcher=torchrun" in output


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (["python3", "train.py", "--lr", "1"], ["python3", "train.py", "--local_rank=1", "--lr", "1"]),
        (["python3", "-m", "mine", "x.py"], ["python3", "-m", "mine", "--local_rank=1", "x.py"]),
        (["./train", "x"], ["./train", "--local_rank=1", "x"]),
        (["python3", "-m", "jobc_trainer"], ["python3", "-m", "jobc_trainer"]),
    ],
)
def test_the_argument_stands_where_the_launcher_would_put_it(command: list[str], expected: list[str]) -> None:
    assert parse_rank_command(["--local_rank=1", "--", *command]) == expected
    assert parse_rank_command(["--", *command]) == command


def test_the_header_says_where_the_run_is() -> None:
    variables = {
        "RUN_ID": "first", "JOB_NAME": "demo", "ATTEMPT": "2", "JOB_ID": "4711", "NODES": "4", "PROCS": "2",
        "NODE_LIST": "node[1-4]", "HEAD_ADDR": "node1", "HEAD_PORT": "23456", "GPUS": "2",
    }  # fmt: skip
    environ = {f"JOBC_{name}": value for name, value in variables.items()} | {"CUDA_VISIBLE_DEVICES": "0,3"}
    first, second, third = run_header_lines(environ)
    assert first == "run first of demo, attempt 2, job 4711 of the engine"
    assert second == "4 nodes x 2 ranks = world size 8, on node[1-4]; rendezvous at node1:23456"
    assert third.startswith("GPUs of this node: 0 3")


@pytest.mark.parametrize(
    ("ranks", "threads", "cores", "warning"),
    [
        (8, "", 1, "8 ranks x 1 thread on 1 CPU core of this node: training will be slow; set cpus=8 or more"),
        (2, "4", 6, "2 ranks x 4 threads on 6 CPU cores of this node: training will be slow; set cpus=8 or more"),
        (2, "4", 8, ""),
        (1, "1", 1, ""),
    ],
)
def test_ranks_with_fewer_cores_than_threads_are_reported(ranks: int, threads: str, cores: int, warning: str) -> None:
    text = warn_about_few_cores({"OMP_NUM_THREADS": threads}, ranks, cores)
    assert warning in text and bool(text) == bool(warning)


def test_gpus_of_amd_are_seen_without_a_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for node, number in enumerate(("0", "51970", "4275")):
        (tmp_path / str(node)).mkdir()
        (tmp_path / str(node) / "gpu_id").write_text(f"{number}\n")
    for name in ("KFD", "DEVICES"):
        monkeypatch.setattr(f"jobc.runtime.system.gpus.{name}", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert describe_gpus({}) == "0 1"


def test_every_run_begins_with_its_header(job: Callable[..., Job]) -> None:
    demo = job(command=("true",))
    output = demo.run("submit")[1]
    assert re.search(r"^jobc: run \S+ of demo, attempt 0\njobc: 1 node x 2 ranks = world size 2, on ", output, re.M)
