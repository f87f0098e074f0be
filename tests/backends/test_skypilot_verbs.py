"""Backend skypilot on its stand-in: what its verbs print before, during and after a run, and what they leave behind."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from jobc.tests.backends.jobs import STEPS, said_by_steps
from jobc.tests.backends.sky_jobs import Job
from jobc.tests.testbed import wait_for

SAYS = """
import os, pathlib, sys, time
print("said by", os.environ["RANK"], flush=True)
while not pathlib.Path(sys.argv[1]).exists():
    time.sleep(0.05)
"""


@pytest.fixture
def talks(folder: Path) -> Callable[..., Job]:
    """Jobs of one rank on each of two nodes, which say their numbers and go on until there is a file."""

    def make(*words: str, until: str = "/") -> Job:
        job = Job(folder, *words, program=until)
        (folder / "program.py").write_text(SAYS)
        return job

    return make


def test_logs_are_of_all_nodes_or_of_one_or_of_a_rank(talks: Callable[..., Job]) -> None:
    job = talks(*STEPS)
    assert job("logs")[0] == 1 and job("status")[0] == 1, "there is no run"
    code, said = job("submit", "--run-id", "a", "--wait")
    assert code == 0 and "run a: job 1 of cluster " in said and "\n0: said by 0\n" in said, said
    for words in ((), ("--run", "a"), ("--follow",)):
        said = job("logs", *words)[1]
        assert "0: said by 0\n" in said and "\n1: jobc: node 1 exited with 0: done\n" in said, said
    lines = job("logs", "--node", "01")[1].splitlines()
    assert said_by_steps(job.run, 2, 2)
    assert "1: jobc: exit 0: done" in lines and all(line.startswith("1: ") for line in lines), lines
    assert job("logs", "--rank", "01") == (0, (job.run / "logs/rank_01.log").read_text())
    assert job("logs", "--node", "7") == (0, "")
    assert job("logs", "--rank", "7")[0] != 0 and job("logs", "--run", "b")[0] == 1
    assert job("status", "--all") == (0, f"{'a':<22} done (exit 0)\n")
    assert job("stop")[0] == 1, "it has ended"


def test_logs_of_a_live_run_go_on_until_it_ends_only_when_asked(talks: Callable[..., Job], folder: Path) -> None:
    job = talks(until=f"{folder}/go")
    code, said = job("submit")
    assert code == 0 and "follow: " in said, said
    wait_for(lambda: "0: said by 0\n" in job("logs")[1], "its first words")
    assert ": live, job 1 of cluster" in job("status")[1]
    assert job("logs", "--node", "0")[0] == 0 and job("logs", "--rank", "1")[1].endswith("\nsaid by 1\n")
    follower = subprocess.Popen(
        [job.artifact / "jobctl", "logs", "-f"], env=job.environment, stdout=subprocess.PIPE, text=True
    )
    (folder / "go").touch()
    said, code = follower.communicate(timeout=60)[0], follower.returncode
    assert code == 0 and "0: jobc: node 0 exited with 0" in said and "1: jobc: node 1 exited with 0" in said, said
    assert "done (exit 0)" in job("status")[1]


def test_clean_removes_old_records_when_told(talks: Callable[..., Job]) -> None:
    job = talks("nodes=1", "keep_runs=1")
    records = job.artifact.parents[2] / "runs" / "job"
    for name in ("a", "b", "c"):
        assert job("submit", "--run-id", name, "--wait")[0] == 0
        time.sleep(0.02)
    code, said = job("clean")
    assert code == 0 and said.endswith("nothing was removed; --yes removes these\n"), said
    assert re.findall(r"^(\w) ", said, re.MULTILINE) == ["b", "a"] and len([*records.iterdir()]) == 3, said
    assert job("clean", "--keep", "03", "--yes") == (0, "nothing to remove\n")
    code, said = job("clean", "--keep", "2", "--yes")
    assert code == 0 and "removed a\n" in said and "nodes' storage" in said, said
    assert job("clean", "--yes")[0] == 0 and [run.name for run in records.iterdir()] == ["c"]
    assert [run.name for run in (job.folder / "storage/job").iterdir()] != [], "what the nodes wrote is theirs"
    job = talks("nodes=1")
    assert job("clean", "--yes")[0] == 2, "nobody has said how many stay"
    assert job("submit", "--run-id", "d")[0] == 0
    assert job("clean", "--keep", "0", "--yes")[0] == 0
    assert not [run for run in records.iterdir() if run.name == "c"]


def test_checks_run_on_the_nodes_and_leave_nothing(talks: Callable[..., Job]) -> None:
    job = talks()
    assert job("preflight", "--queue-only") == (0, "ok    SkyPilot would launch the job\n")
    assert not [*job.folder.glob("storage/*")]
    code, said = job("preflight")
    assert code == 0 and "ready: 2 nodes" in said, said
    assert not [*job.folder.glob("storage/.checks/*")] and not [*job.folder.glob("runs/*/*")]


def test_a_shell_is_on_the_node_that_was_asked_for(talks: Callable[..., Job]) -> None:
    job = talks()
    ask = ("--", "bash", "-c", 'echo "node $JOBC_NODE_RANK of $JOBC_NODES"; exit 3')
    assert job("shell", *ask)[0] == 1, "there is no run"
    assert job("submit", "--wait")[0] == 0
    assert job("shell", *ask) == (3, "node 0 of 2\n")
    assert job("shell", "--node", "1", *ask) == (3, "node 1 of 2\n")
    assert job("shell", "--node", "2", *ask)[0] == 2
    assert job("stop", "--down")[0] == 0
    assert job("shell", *ask)[0] == 1, "its cluster is down"


def bring_down(job: Job) -> None:
    """Delete the cluster, as autostop does for a cluster whose job has ended, before a verb has looked at the run."""
    state = job.folder / ".stand_in_sky" / "job" / "1.json"
    wait_for(lambda: '"RUNNING"' not in state.read_text(), "its end")
    subprocess.run(["sky", "down", "--yes", "job"], env=job.environment, check=True, capture_output=True)


@pytest.mark.parametrize(
    ("program", "says"), [("0 0", "done (exit 0)"), ("0 65", "failed (exit 65: invalid data or configuration")]
)
def test_a_run_that_ended_unseen_is_told_from_its_storage(folder: Path, program: str, says: str) -> None:
    job = Job(folder, program=program)
    assert job("submit", "--run-id", "a")[0] == 0
    bring_down(job)
    for words in (("--all",), (), ("--all",)):
        code, said = job("status", *words)
        assert code == 0 and says in said, said
    assert ("reason: node 1: rank 1: exit status 65" in job("status")[1]) == (program != "0 0")
    code, said = job("logs")
    assert code == 1 and said.startswith("error: SkyPilot no longer has the output of job 1 of cluster job\n"), said
    assert len(said.splitlines()) == 2 and "jobctl logs --rank N prints a rank's log" in said, said
    code, said = job("logs", "--rank", "1")
    assert code == 0 and "up" in said.splitlines(), said


def test_of_a_run_that_ended_unseen_nothing_is_said_that_nobody_knows(folder: Path) -> None:
    job = Job(folder, "backend.infra=aws", "storage.run=node", "storage.root=storage", "nodes=1", program="0")
    assert job("submit", "--run-id", "a")[0] == 0
    bring_down(job)
    for words in ((), ("--all",)):
        code, said = job("status", *words)
        assert code == 0 and "its result is unknown here; the disks were deleted with the nodes" in said, said
        assert "failed" not in said and "done" not in said, said
    for words in ((), ("--node", "0"), ("--rank", "0")):
        code, said = job("logs", *words)
        assert code == 1 and said.startswith("error: ") and len(said.splitlines()) == 2, said


def test_without_sky_nothing_is_begun(talks: Callable[..., Job]) -> None:
    job = talks()
    assert "has no run" in job("status")[1], "which needs no sky"
    for verb in ("submit", "stop", "preflight", "smoke"):
        environment = {**job.environment, "PATH": "/usr/bin:/bin"}
        done = subprocess.run(
            [job.artifact / "jobctl", verb], env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 1 and done.stderr.startswith("error: sky was not found\n"), f"{verb}: {done.stderr}"
    assert not [*job.folder.glob("runs/*/*")]
