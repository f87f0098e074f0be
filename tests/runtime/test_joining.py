"""Join an attempt: which attempt the nodes of a submission agree on, and when one of them must not start."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from jobc.runtime.node import join_shared_run
from jobc.runtime.node.join_attempt import (
    JoinFailure,
    StartFailure,
    port_from_text,
    prepare_attempt,
    report_start_failure,
)
from jobc.runtime.node.join_shared_run import join_run, wait_until_others_silent
from jobc.runtime.system.failure import NodeMustNotStart
from jobc.runtime.system.values import read_keys


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(join_shared_run, "LOOK_S", 0.01)
    monkeypatch.setattr(join_shared_run, "BEAT_LOOK_S", 0.05)


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as pool:
        yield pool


def join(run: Path, node: int = 0, nodes: int = 1, submission: str = "a", most: int = 3, timeout_s: float = 10) -> int:
    return join_run(run, node, nodes, submission, most, timeout_s, lambda _: None)


def end(run: Path, attempt: int, **codes: int) -> None:
    """Record exit codes of nodes, as supervisors do: node_00=69"""
    folder = run / "exit" / str(attempt)
    folder.mkdir(parents=True, exist_ok=True)
    for name, code in codes.items():
        (folder / name).write_text(f"{code}\nreason=x\n")


def state(run: Path, words: str, age_s: float) -> Path:
    file = run / "state" / "node_01"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(words)
    os.utime(file, (time.time() - age_s,) * 2)
    return file


# ---- joining


def test_nodes_start_together_after_node_0_has_prepared_the_attempt(
    tmp_path: Path, threads: ThreadPoolExecutor
) -> None:
    prepared = threading.Event()
    results: list[Future[int]] = []
    for node in (2, 1):
        results.append(
            threads.submit(join_run, tmp_path, node, 3, "a", 0, 10, lambda _: pytest.fail("node 0 prepares"))
        )
    time.sleep(0.1)
    assert not any(result.done() for result in results)
    results.append(threads.submit(join_run, tmp_path, 0, 3, "a", 0, 10, lambda attempt: prepared.set()))
    assert [result.result(10) for result in results] == [0, 0, 0]
    assert prepared.is_set()


def test_a_node_that_starts_again_ends_the_attempt_of_the_others_and_begins_the_next(
    tmp_path: Path, threads: ThreadPoolExecutor
) -> None:
    for result in [threads.submit(join, tmp_path, node, 2) for node in (0, 1)]:
        result.result(10)
    again = threads.submit(join, tmp_path, 1, 2)
    first = tmp_path / "exit/0/first"
    while not first.exists():
        time.sleep(0.01)
    assert first.read_text() == "69\nnode=1\nreason=node 1 was restarted\n"
    assert join(tmp_path, 0, 2) == again.result(10) == 1
    assert sorted(os.listdir(first.parent)) == ["first"]


def test_a_recorded_first_failure_stays(tmp_path: Path) -> None:
    join(tmp_path)
    end(tmp_path, 0, first=75, node_00=75)
    assert join(tmp_path) == 1
    assert (tmp_path / "exit/0/first").read_text().startswith("75\n")


def test_a_node_is_not_started_again_beside_one_that_is_done(tmp_path: Path) -> None:
    join(tmp_path)
    end(tmp_path, 0, node_01=0)
    with pytest.raises(JoinFailure, match="node 01 has already finished") as failure:
        join(tmp_path)
    assert (failure.value.code, failure.value.attempt) == (1, 0)


@pytest.mark.parametrize(("codes", "code"), [((1, 71), 71), ((69, 65), 65), ((1, 75), 1)])
def test_an_attempt_that_failed_for_good_is_not_followed_by_another(
    tmp_path: Path, codes: tuple[int, int], code: int
) -> None:
    join(tmp_path)
    end(tmp_path, 0, node_00=codes[0], node_01=codes[1])
    with pytest.raises(NodeMustNotStart, match="attempt 0 failed with this exit code") as leave:
        join(tmp_path)
    assert leave.value.code == code


def test_restarts_are_limited_in_each_submission(tmp_path: Path) -> None:
    assert [join(tmp_path, most=1), join(tmp_path, most=1)] == [0, 1]
    with pytest.raises(JoinFailure, match="restart limit of 1 reached"):
        join(tmp_path, most=1)
    assert join(tmp_path, submission="b.c", most=1) == 2
    assert join(tmp_path, submission="b.c", most=1) == 3


def test_a_new_submission_continues_a_stopped_run_and_the_old_one_does_not(tmp_path: Path) -> None:
    join(tmp_path)
    stop = tmp_path / "control/STOP"
    stop.parent.mkdir()
    stop.touch()
    with pytest.raises(NodeMustNotStart, match="the run was stopped") as leave:
        join(tmp_path)
    assert leave.value.code == 0
    assert join(tmp_path, submission="b") == 1
    assert not stop.exists()


def test_names_that_jobc_does_not_write_are_no_attempts(tmp_path: Path) -> None:
    for name in ("07.a", "x.a", "5", ".9.a", f"{10**20}.a", "3.b\n"):
        (tmp_path / "starts" / name).mkdir(parents=True)
    assert join(tmp_path) == 0


def test_a_node_that_does_not_come_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(JoinFailure, match=r"timeout: these nodes did not join within 0\.1 s: 1 2") as failure:
        join(tmp_path, 0, 3, timeout_s=0.1)
    assert failure.value.code == 71
    assert capsys.readouterr().out == "jobc: node 0 is ready, waiting for 1 2\n"


def test_a_waiting_node_leaves_when_another_has_failed_or_the_run_is_stopped(
    tmp_path: Path, threads: ThreadPoolExecutor
) -> None:
    waits = threads.submit(join, tmp_path, 0, 2)
    while not (tmp_path / "starts/0.a/0").exists():
        time.sleep(0.01)
    folder = tmp_path / "exit/0"
    folder.mkdir()
    (folder / "new").write_text("1\nnode=1\nreason=no torch\n")
    (folder / "new").rename(folder / "first")
    with pytest.raises(NodeMustNotStart, match="node 1: no torch") as leave:
        waits.result(10)
    assert leave.value.code == 69


def test_storage_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    (tmp_path / "starts").write_text("")
    with pytest.raises(StartFailure, match="cannot write to"):
        join(tmp_path)


# ---- another submission


@pytest.mark.parametrize(
    ("words", "age_s"), [("attempt=2\nended=1\n", 0), ("attempt=1\n", 0), ("attempt=2\n", 92)], ids=str
)
def test_a_node_that_ended_or_was_silent_or_is_of_an_older_attempt_holds_nobody(
    tmp_path: Path, words: str, age_s: float, capsys: pytest.CaptureFixture[str]
) -> None:
    state(tmp_path, words, age_s)
    wait_until_others_silent(tmp_path, 2)
    assert not capsys.readouterr().out


def test_a_node_without_a_last_word_is_waited_for_until_it_has_been_silent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state(tmp_path, "attempt=2\n", 89.7)
    wait_until_others_silent(tmp_path, 2)
    words = "jobc: node 01 of another job may still be running: waiting until it has been inactive for 90 s\n"
    assert capsys.readouterr().out == words


def test_a_node_that_beats_ends_the_other_job(tmp_path: Path, threads: ThreadPoolExecutor) -> None:
    file = state(tmp_path, "attempt=2\n", 20)
    refusal = threads.submit(wait_until_others_silent, tmp_path, 2)
    time.sleep(0.2)
    os.utime(file)
    with pytest.raises(
        NodeMustNotStart, match=f"run {tmp_path.name} is live: node 01 of another job is writing to it"
    ) as leave:
        refusal.result(10)
    assert leave.value.code == 1


# ---- preparing, ending


def test_the_copy_of_the_artifact_is_complete_and_made_once(tmp_path: Path) -> None:
    artifact, run = tmp_path / "artifact", tmp_path / "run"
    (artifact / ".jobc").mkdir(parents=True)
    (artifact / ".jobc/job.json").write_text("{}")
    (artifact / "jobctl").write_text("x")
    (artifact / "jobctl").chmod(0o755)
    (artifact / "link").symlink_to("jobctl")
    (run / "artifact/.0/old").mkdir(parents=True)  # a node was killed here
    prepare_attempt(run, 0, artifact, "/runs/x", "demo", "/project")
    (artifact / "late").touch()
    prepare_attempt(run, 0, artifact, "", "demo", "")
    copy = run / "artifact/0"
    assert sorted(os.listdir(copy)) == [".jobc", "jobctl", "link"]
    assert os.readlink(copy / "link") == "jobctl"
    assert os.access(copy / "jobctl", os.X_OK)
    assert not os.access(copy / ".jobc/job.json", os.X_OK)
    keys = read_keys(run / "state/run")
    assert (keys["job"], keys["project"], keys["init_from"]) == ("demo", "/project", "/runs/x")
    prepare_attempt(run, 1, artifact, "", "demo", "")
    assert sorted(os.listdir(run / "artifact")) == ["0", "1"]
    assert read_keys(run / "state/run") == keys


def test_only_a_failed_attempt_is_recorded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "state").mkdir()
    environ = {"JOBC_RUN_DIR": str(tmp_path), "JOBC_NODE_RANK": "1", "JOBC_NODES": "2"}
    assert report_start_failure(NodeMustNotStart(69, "node 0: x"), environ, "train") == 69
    assert report_start_failure(StartFailure(1, "no", "try"), environ, "train") == 1
    assert capsys.readouterr() == ("jobc: node 0: x: this node exits with 69\n", "error: no\n  hint: try\n")
    assert not (tmp_path / "exit").exists()
    assert report_start_failure(JoinFailure(3, 71, "late"), environ, "train") == 71
    assert (tmp_path / "exit/3/first").read_text().startswith("71\nnode=1\n")
    assert read_keys(tmp_path / "state/node_01")["exit"] == "71"


@pytest.mark.parametrize("text", ["", "6f3b2c1e-77aa-4c02-9c1b-6b1e0a5f9d10", "sky-2026_x_1", "ü" * 300])
def test_the_derived_port_is_that_of_cksum(text: str) -> None:
    printed = subprocess.run(["cksum"], input=f"{text}\n".encode(), capture_output=True, check=True).stdout
    assert port_from_text(text) == 20000 + int(printed.split()[0]) % 12000
