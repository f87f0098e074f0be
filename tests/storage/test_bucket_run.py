"""A run in a bucket: its owner, its attempts, and what is uploaded and downloaded. Threads stand for nodes."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from jobc.runtime.run_folder.run_folder import RunFolder, read_small_file, write_small_file
from jobc.runtime.storage import bucket_run
from jobc.runtime.storage.bucket import Bucket, BucketError, ListedObject
from jobc.runtime.storage.bucket_mirror import BucketMirror, create_empty_run_folder
from jobc.runtime.storage.bucket_run import STOP, BucketRun, SubmittedNode
from jobc.runtime.system.failure import NodeMustNotStart
from jobc.tests.checkpoints import newest_verified
from jobc.trainer.checkpoint import store
from jobc.trainer.lifecycle.errors import BrokenInput
from jobc.trainer.loop import attempt_counter
from jobc.trainer.loop.metrics import RankMetricsFile, rotated_files

from .s3_server import S3Server

numbers = count()


@pytest.fixture
def run(server: S3Server) -> BucketRun:
    return BucketRun(server.bucket(), f"job/{next(numbers)}", pause=lambda s: time.sleep(s / 20))


def join(run: BucketRun, submission: str, nodes: int = 1, node: int = 0, most: int = 3) -> int | str:
    """Return the attempt, or `CODE why`."""
    try:
        return run.join_attempt(SubmittedNode(submission, node, nodes, most, 10), "", "job")
    except NodeMustNotStart as leave:
        return f"{leave.code} {leave.title}"


def all_join(run: BucketRun, submission: str, nodes: int) -> list[int | str]:
    with ThreadPoolExecutor(nodes) as threads:
        return list(threads.map(lambda node: join(run, submission, nodes, node), range(nodes)))


def end(run: BucketRun, attempt: int, nodes: int, code: int = 75) -> None:
    for node in range(nodes):
        run.put(f"state/node_{node:02}", f"attempt={attempt}\nended=1\nexit={code}\n".encode())
        run.put(f"exit/{attempt}/node_{node:02}", f"{code}\nreason=\n".encode())


def test_nodes_meet_in_the_next_attempt_until_the_limit(run: BucketRun) -> None:
    assert all_join(run, "a", 3) == [0, 0, 0]
    assert all_join(run, "a", 3) == [1, 1, 1], "the engine started all of them again"
    assert (run.get("exit/0/first") or b"").startswith(b"69\n"), "which nodes that still run are told"
    run.put("exit/1/node_02", b"0\nreason=\n")
    assert join(run, "a", 3, 0) == "1 node 02 has already finished, so this node cannot restart alone"
    end(run, 1, 3)
    assert join(run, "a", 3, 0, most=1) == "1 already restarted 1 times, which is the limit"


def test_a_node_that_does_not_come_is_named(run: BucketRun) -> None:
    who = SubmittedNode("a", 1, 2, 3, 0.5)
    with pytest.raises(NodeMustNotStart, match="timeout: these nodes did not join within 0 s: 0") as leave:
        run.join_attempt(who, "", "job")
    assert leave.value.code == 71


def test_two_jobs_cannot_have_one_run(run: BucketRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bucket_run, "SILENT_S", 6.0)
    assert join(run, "a") == 0
    alive = threading.Event()

    def live() -> None:
        while not alive.wait(0.3):
            run.put("state/node_00", b"attempt=0\n")

    thread = threading.Thread(target=live)
    thread.start()
    refused = join(run, "b")
    alive.set()
    thread.join()
    assert isinstance(refused, str) and refused.startswith("1 run ") and "is live: node_00 of another job" in refused
    assert join(run, "b") == 1, "it has been silent"
    end(run, 1, 1)
    began = time.monotonic()
    assert join(run, "c") == 2 and time.monotonic() - began < 2, "it has ended"


def test_a_stopped_run_stays_stopped_until_it_is_submitted_again(run: BucketRun) -> None:
    assert join(run, "a") == 0
    end(run, 0, 1)
    run.put(STOP, b"")
    assert join(run, "a") == "0 the run was stopped"
    assert join(run, "b") == 1 and run.get(STOP) is None


# ---- what goes up and comes back -----------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[RunFolder]:
    for name in ("state", "logs", "control", "metrics"):
        (tmp_path / "here" / name).mkdir(parents=True)
    yield RunFolder(tmp_path / "here", 0)


def save(folder: RunFolder, step: int, size: int = 10, keep: int = 2, val_loss: float | None = None) -> None:
    files = {"weights.pt": os.urandom(size), "state.json": b"{}"}
    store.save_checkpoint(folder.checkpoints, step, files, keep, val_loss)


def going_on(run: BucketRun, folder: RunFolder, node: int = 0) -> BucketMirror:
    """The one that sends, in a process after that of the one that has brought."""
    mirror = BucketMirror(run, folder, node)
    mirror.load_restored_state()
    return mirror


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the requests to the store in order: `+ NAME` for a written object, `- NAME` for a removed one."""
    told: list[str] = []
    ask = Bucket._request

    def _request(self: Bucket, method: str, key: str | None, *rest: Any, **more: Any) -> Any:
        if key is not None and method in ("PUT", "DELETE"):
            told.append(f"{'+' if method == 'PUT' else '-'} {key.split('/', 2)[2]}")
        return ask(self, method, key, *rest, **more)

    monkeypatch.setattr(Bucket, "_request", _request)
    return told


def names(run: BucketRun, prefix: str = "") -> list[str]:
    return sorted(run.object_ages(prefix))


def test_a_manifest_goes_when_all_its_files_have_gone(run: BucketRun, folder: RunFolder) -> None:
    mirror = BucketMirror(run, folder, 0)
    save(folder, 100, size=100_000)
    mirror.upload_changes(logs=False, last=False)
    step = "checkpoints/step_00000100"
    assert names(run) == [], "the large file has not been seen twice yet"
    mirror.upload_changes(logs=False, last=False)
    assert names(run) == [f"{step}/{name}" for name in ("MANIFEST.json", "state.json", "weights.pt")]
    for step_ in (200, 300):
        save(folder, step_)
    mirror.upload_changes(logs=False, last=True)
    assert {name.split("/")[1] for name in names(run)} == {"step_00000200", "step_00000300"}


def test_a_checkpoint_that_the_disk_does_not_give_stays_in_the_bucket(
    run: BucketRun, folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    mirror = BucketMirror(run, folder, 0)
    save(folder, 100)
    mirror.upload_changes(logs=False, last=True)
    there, place, stat, scandir = names(run), folder.checkpoints / "step_00000100", Path.stat, os.scandir

    def refusing(read: Callable[..., Any]) -> Callable[..., Any]:
        def called(path: Any, *arguments: Any, **keywords: Any) -> Any:
            if place in (Path(path), *Path(path).parents):
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return read(path, *arguments, **keywords)

        return called

    monkeypatch.setattr(os, "scandir", refusing(scandir))
    monkeypatch.setattr(Path, "stat", refusing(stat))
    monkeypatch.setattr(Path, "exists", lambda path: False)  # as of Python 3.14, which hides the error
    with pytest.raises(OSError, match="Input/output error"):
        mirror.upload_changes(logs=False, last=True)
    assert names(run) == there


def test_the_newest_sound_checkpoint_comes_back_and_older_ones_are_removed_in_their_turn(
    run: BucketRun, folder: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save(folder, 50, keep=4, val_loss=0.1)
    for step in (100, 200, 300):
        save(folder, step, keep=4)
    (folder.checkpoints / "other.txt").write_text("of a program")
    BucketMirror(run, folder, 0).upload_changes(logs=True, last=True)
    run.bucket.delete([run.object_key("checkpoints/step_00000300/weights.pt")])

    next_folder = RunFolder(tmp_path / "next", 1)
    brings = BucketMirror(run, next_folder, 0)
    assert brings.restore_checkpoint(run, next_folder.path, everything=True) == "checkpoints/step_00000200"
    assert "step_00000300 in the bucket is damaged: weights.pt" in capsys.readouterr().out
    newest, damaged = newest_verified(next_folder.checkpoints)
    assert newest is not None and newest.name == "step_00000200" and len(damaged) == 1
    assert (next_folder.checkpoints / "step_00000050").is_dir()  # the best one
    assert (next_folder.checkpoints / "other.txt").read_text() == "of a program"
    sends = going_on(run, next_folder)
    for step in (300, 400):
        save(next_folder, step)
        sends.upload_changes(logs=False, last=True)
    assert {name.split("/")[1] for name in names(run)} == {
        "other.txt", "step_00000050", "step_00000300", "step_00000400",
    }  # fmt: skip
    assert (
        BucketMirror(run, RunFolder(tmp_path / "node 1", 1), 1).restore_checkpoint(run, tmp_path / "node 1", False)
        is None
    )
    assert [path.name for path in (tmp_path / "node 1" / "checkpoints").iterdir()] == ["other.txt"]


def saved_again(folder: RunFolder, weights: bytes, val_loss: float | None, state: bytes = b"{}") -> None:
    files = {"weights.pt": weights, "rng.pt": b"r", "state.json": state}
    store.save_checkpoint(folder.checkpoints, 100, files, 2, val_loss, replaces=val_loss is None)


@pytest.mark.parametrize("came_back", [False, True])
def test_a_checkpoint_whose_loss_was_measured_later_sends_what_has_changed(
    run: BucketRun, folder: RunFolder, tmp_path: Path, sent: list[str], came_back: bool
) -> None:
    weights, step = os.urandom(100_000), "checkpoints/step_00000100"
    saved_again(folder, weights, None)
    mirror = BucketMirror(run, folder, 0)
    mirror.upload_changes(logs=False, last=True)
    assert sent == [f"+ {step}/{name}" for name in ("weights.pt", "state.json", "rng.pt", "MANIFEST.json")]
    if came_back:
        folder = RunFolder(tmp_path / "next", 1)
        BucketMirror(run, folder, 0).restore_checkpoint(run, folder.path, everything=True)
        mirror = going_on(run, folder)
    sent.clear()
    saved_again(folder, weights, 0.5)
    for _ in range(2):  # what is large is looked at twice
        mirror.upload_changes(logs=False, last=False)
    assert sent == [f"+ {step}/MANIFEST.json"]
    sent.clear()
    (folder.checkpoints / "step_00000100" / "MANIFEST.json").unlink()
    saved_again(folder, weights, 0.5, b'{"owed": false}')
    for _ in range(2):
        mirror.upload_changes(logs=False, last=False)
    assert sent == [f"- {step}/MANIFEST.json", f"+ {step}/state.json", f"+ {step}/MANIFEST.json"]
    assert (
        BucketMirror(run, RunFolder(tmp_path / "last", 2), 0).restore_checkpoint(
            run, tmp_path / "last", everything=True
        )
        == step
    )


def test_a_replaced_checkpoint_is_never_unsound_there(
    run: BucketRun, folder: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(folder, 50)
    mirror, ask, left = BucketMirror(run, folder, 0), Bucket._request, [99]

    def until_killed(self: Bucket, method: str, *rest: Any, **more: Any) -> Any:
        left[0] -= method in ("PUT", "DELETE")
        if left[0] < 0:
            raise BucketError("killed", "", 69)
        return ask(self, method, *rest, **more)

    monkeypatch.setattr(Bucket, "_request", until_killed)
    came: list[str | None] = []
    one, other = b"1" * 100_000, b"2" * 100_000
    for allowed in range(5):
        saved_again(folder, one, None)
        mirror.upload_changes(logs=False, last=True)
        saved_again(folder, other, None)
        left[0] = allowed
        with contextlib.suppress(BucketError):
            mirror.upload_changes(logs=False, last=True)
        left[0] = 99
        path = tmp_path / str(allowed)
        came.append(BucketMirror(run, RunFolder(path, 1), 0).restore_checkpoint(run, path, everything=True))
        if allowed == 0:
            assert (path / "checkpoints" / "step_00000100" / "weights.pt").read_bytes() == one
    before, replaced = "checkpoints/step_00000050", "checkpoints/step_00000100"
    assert came == [replaced, before, before, replaced, replaced]
    assert (path / replaced / "weights.pt").read_bytes() == other


def test_what_has_come_back_does_not_go_up_again(
    run: BucketRun, folder: RunFolder, tmp_path: Path, sent: list[str]
) -> None:
    for step in (100, 200, 300):
        save(folder, step, size=100_000, keep=3)
    (folder.checkpoints / "other.txt").write_text("of a program")
    BucketMirror(run, folder, 0).upload_changes(logs=True, last=True)
    nodes = [RunFolder(tmp_path / f"node {node}", 1) for node in range(2)]
    for node, here in enumerate(nodes):
        BucketMirror(run, here, node).restore_checkpoint(run, here.path, everything=node == 0)
    sent.clear()
    for node, here in enumerate(nodes):
        going_on(run, here, node).upload_changes(logs=True, last=True)
    assert sent == []
    (nodes[1].checkpoints / "other.txt").write_text("of the other node")
    going_on(run, nodes[1], 1).upload_changes(logs=True, last=True)
    assert sent == ["+ checkpoints/other.txt"]


def test_checkpoints_that_were_killed_on_their_way_are_removed(
    run: BucketRun, folder: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(folder, 300)
    BucketMirror(run, folder, 0).upload_changes(logs=True, last=True)
    killed = "checkpoints/step_00000400/weights.pt", "checkpoints/step_00000100/state.json"
    of_others = "checkpoints/step_00000200/shard_1.pt", "checkpoints/step_5/weights.pt"
    owner, of_this_attempt = "starts/00001/owner", "checkpoints/step_00000500/weights.pt"
    for name in (*killed, *of_others, owner, of_this_attempt):
        run.put(name, b"")
    ages, listed = {owner: 50.0, of_this_attempt: 10.0}, run.bucket.list

    def list_with_ages(prefix: str) -> list[ListedObject]:
        return [
            item._replace(age_s=ages.get(item.key.removeprefix(run.object_key("")), 100.0)) for item in listed(prefix)
        ]

    monkeypatch.setattr(run.bucket, "list", list_with_ages)

    next_folder = RunFolder(tmp_path / "next", 1)
    BucketMirror(run, next_folder, 0).restore_checkpoint(run, next_folder.path, everything=True)
    assert set(killed) < set(names(run)), "it only looks"
    before = set(names(run))
    going_on(run, next_folder).upload_changes(logs=True, last=True)
    assert before - set(names(run)) == set(killed)


# ---- whether it gets anywhere ------------------------------------------------------------------------------------


def begin(run: BucketRun, folder: RunFolder, attempt: int, most: int) -> BucketMirror:
    """Begin an attempt as join, restore and rank 0 do. Return its mirror."""
    here = RunFolder(folder.path, attempt)
    create_empty_run_folder(here.path)
    brings = BucketMirror(run, here, 0)
    brings.download_progress()
    brings.restore_checkpoint(run, here.path, everything=True)
    sends = going_on(run, here)
    attempt_counter.record_start_or_reject_loop(here.path, most)
    return sends


def reach(mirror: BucketMirror, step: int) -> None:
    """Record a completed step and upload it to the bucket, before the node is killed."""
    with (mirror.folder.path / "metrics" / "rank_00.jsonl").open("a") as file:
        file.write(f'{{"step": {step}, "loss": 1}}\n')
    mirror.upload_changes(logs=True, last=False)


def test_starts_that_come_no_further_are_counted_in_the_bucket(run: BucketRun, folder: RunFolder) -> None:
    reach(begin(run, folder, 0, most=2), 50)
    reach(begin(run, folder, 1, most=2), 40)
    reach(begin(run, folder, 2, most=2), 50)
    with pytest.raises(BrokenInput, match="crash loop: 2 consecutive starts completed no step beyond step 50"):
        begin(run, folder, 3, most=2)
    going_on(run, RunFolder(folder.path, 3)).upload_changes(logs=True, last=True)
    reach(begin(run, folder, 4, most=2), 50)


def test_starts_that_come_further_between_two_saves_are_not_fruitless(run: BucketRun, folder: RunFolder) -> None:
    for attempt in range(4):
        mirror = begin(run, folder, attempt, most=1)
        reach(mirror, 101 + 10 * attempt)
        with (folder.path / "metrics" / "rank_00.jsonl").open("a") as file:
            file.write('{"step": 200, "lo')  # torn, as a part may be
        mirror.upload_changes(logs=True, last=False)
    assert not [name for name in names(run) if name == "state/reached"], "of this node"


def test_a_good_end_is_one_in_the_bucket_too(run: BucketRun, folder: RunFolder, sent: list[str]) -> None:
    for attempt in range(2):
        begin(run, folder, attempt, most=2).upload_changes(logs=True, last=True)
    mirror = begin(run, folder, 2, most=3)
    folder.node_exit_file(0).parent.mkdir(parents=True)
    folder.node_exit_file(0).write_text("75\nreason=\n")
    attempt_counter.record_normal_end(folder.path)
    sent.clear()
    mirror.upload_changes(logs=True, last=True)
    assert sent == ["- state/progress", "+ exit/0/node_00"]
    for attempt in range(3, 5):
        begin(run, folder, attempt, most=2).upload_changes(logs=True, last=True)


def test_the_next_attempt_knows_which_commands_have_ended(run: BucketRun, folder: RunFolder) -> None:
    mirror = begin(run, folder, 0, most=2)
    write_small_file(folder.ended_commands_file, keys={"count": 1})
    mirror.upload_changes(logs=True, last=True)
    begin(run, folder, 1, most=2)
    assert read_small_file(folder.ended_commands_file) == ("", {"count": "1"})


def test_logs_go_up_in_parts_that_read_as_one(run: BucketRun, folder: RunFolder) -> None:
    log = folder.rank_log_file(0)
    mirror = BucketMirror(run, folder, 0)
    for line in ("one\n", "two\n"):
        with log.open("a") as file:
            file.write(line)
        mirror.upload_changes(logs=True, last=False)
    again = BucketMirror(run, RunFolder(folder.path, 1), 0)
    log.write_text("three\n")
    again.upload_changes(logs=True, last=True)
    assert len(names(run, "logs/")) == 3
    assert run.read_complete_log("logs/rank_00.log") == b"one\ntwo\nthree\n"


def test_metrics_that_were_put_aside_are_one_log_there(run: BucketRun, folder: RunFolder) -> None:
    metrics, mirror = RankMetricsFile(folder.path, 0, flush_s=0, max_bytes=60), BucketMirror(run, folder, 0)
    for step in range(30):
        metrics.write({"step": step, "loss": 0.5})
        if step % 7 == 0:
            mirror.upload_changes(logs=True, last=False)
    assert len(rotated_files(metrics.path)) > 11, "by number: .10 is after .9"
    mirror.upload_changes(logs=True, last=True)
    lines = (run.read_complete_log("metrics/rank_00.jsonl") or b"").decode().splitlines()
    assert [json.loads(line)["step"] for line in lines] == list(range(30))
    assert {name.rpartition("/")[0] for name in names(run, "metrics/")} == {"metrics/rank_00.jsonl"}


def test_marks_of_others_come_down(run: BucketRun, folder: RunFolder) -> None:
    mirror = BucketMirror(run, folder, 0)
    run.put(STOP, b"")
    run.put("control/SAVE", b"")
    run.put("exit/0/first", b"65\nnode=1\ntime_ns=5\nreason=rank 2: bad\n")
    run.put("exit/0/node_01", b"65\nreason=rank 2: bad\n")
    mirror.download_marks()
    assert folder.stop_mark.exists() and (folder.path / "control" / "SAVE").exists()
    assert "reason=rank 2: bad" in folder.first_failure.read_text()
    assert names(run, "control/") == [STOP], "the wish to save is fulfilled once"
    run.put("state/node_02", b"attempt=0\n")
    (folder.path / "exit" / "0" / "node_00").write_text("0\n")
    assert mirror.count_unfinished_nodes(4) == 1, "node 2 lives, node 3 has never come"
    assert (folder.path / "exit" / "0" / "node_01").read_text().startswith("65\n")
