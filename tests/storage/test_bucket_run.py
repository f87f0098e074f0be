"""A run in a bucket: its owner, its attempts, crash loops, logs and marks. Threads stand for nodes."""

from __future__ import annotations

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from jobc.runtime.run_folder.run_folder import RunFolder, read_small_file, write_small_file
from jobc.runtime.storage import bucket_run
from jobc.runtime.storage.bucket_mirror import BucketMirror, create_empty_run_folder
from jobc.runtime.storage.bucket_run import STOP, BucketRun, SubmittedNode
from jobc.runtime.system.failure import NodeMustNotStart
from jobc.trainer.lifecycle.errors import BrokenInput
from jobc.trainer.loop import attempt_counter
from jobc.trainer.loop.metrics import RankMetricsFile, rotated_files

from .bucket_bed import going_on, names


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
    assert join(run, "a", 3, 0, most=1) == "1 restart limit of 1 reached"


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
