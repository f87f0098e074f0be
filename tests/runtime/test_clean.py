"""clean.sh: which old runs go, which stay whatever one asks, and what is left of those that lose checkpoints."""

from __future__ import annotations

import os
import pty
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from jobc.trainer.checkpoint import store

FOUR = ("a", "b", "c", "d")


@pytest.fixture
def finished(job):
    """A job with four finished runs, a to d: one that ran, and copies of it."""
    return four_runs(job())


def four_runs(demo):
    assert demo.run("submit.sh", "--run-id", "a")[0] == 0
    for age, name in enumerate(reversed(FOUR)):
        if name != "a":
            shutil.copytree(demo.runs / "a", demo.runs / name, symlinks=True)
        os.utime(demo.runs / name / "artifact", (time.time() - age, time.time() - age))
    return demo


def names(demo) -> list[str]:
    return [run.name for run in demo.runs_made()]


def state_of(run: Path, **changes: str) -> None:
    """Change keys of the state file of its node."""
    file = run / "state/node_00"
    keys = dict(line.split("=", 1) for line in file.read_text().splitlines()) | changes
    file.write_text("".join(f"{key}={value}\n" for key, value in keys.items() if value))


def test_it_lists_and_removes_nothing_until_told(finished):
    code, output = finished.run("clean.sh", "--keep", "2")
    assert code == 0 and names(finished) == [*FOUR], output
    assert re.match(
        r"b +0 min old +\d+K  done \(exit 0\)\na +0 min old +\d+K  done \(exit 0\)\ntogether [\d.]+[KM]\n", output
    )
    assert output.endswith("nothing was removed; --yes removes it\n")
    code, output = finished.run("clean.sh", "--keep", "2", "--yes")
    assert code == 0 and output.endswith("removed b\nremoved a\n") and names(finished) == ["c", "d"]
    assert sorted(path.name for path in finished.runs.iterdir()) == ["c", "d"]
    assert finished.run("clean.sh", "--keep", "2", "--yes") == (0, "nothing to remove\n")


def test_a_new_run_removes_no_old_one(job):
    demo = four_runs(job(run_keep=1))
    assert demo.run("submit.sh", "--run-id", "e")[0] == 0
    assert names(demo) == [*FOUR, "e"]
    assert demo.run("clean.sh", "--yes")[0] == 0 and names(demo) == ["e"]


def test_how_many_stay_must_be_said(finished):
    code, output = finished.run("clean.sh", "--yes")
    assert code == 2 and output.startswith("error: how many runs shall stay?\n  hint: --keep 5, or keep_runs=5")
    assert finished.run("clean.sh", "--keep", "-1", "--yes")[0] == 2 and names(finished) == [*FOUR]


@pytest.mark.parametrize(("answer", "left"), [(b"y\n", ["d"]), (b"\n", [*FOUR])])
def test_at_a_terminal_it_asks(finished, answer, left):
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [finished.artifact / "clean.sh", "--keep", "1"],
        env=finished.environment(), stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
    )  # fmt: skip
    os.close(slave)
    os.write(master, answer)
    assert process.wait(60) == 0 and names(finished) == left
    os.close(master)


def test_a_live_run_stays(finished):
    finished.plan.command += ("handle", "SIGTERM=75", "mark", "wait")
    finished.write_artifact()
    assert finished.run("submit.sh", "--resume", "a", "--detach")[0] == 0
    finished.wait_for_marks("0", "1")
    for name in ("e", "f"):  # a is not the newest any more
        (finished.runs / name / "artifact/0").mkdir(parents=True)
        (finished.runs / name / "state").mkdir()
        (finished.runs / name / "state/run").write_text("job=demo\ninit_from=\n")
    code, output = finished.run("clean.sh", "--keep", "0", "--yes")
    assert code == 0 and "run a stays: it is live\n" in output
    assert "run f stays: attempt 0 of it is being started, or never was\n" in output
    assert names(finished) == ["a", "e", "f"]
    assert finished.run("stop.sh", "--run", "a")[0] == 0


def test_a_run_whose_nodes_may_live_elsewhere_stays(finished):
    state_of(finished.runs / "a", host="another-host", ended="")
    state_of(finished.runs / "b", host="another-host", ended="")
    os.utime(finished.runs / "b/state/node_00", (1, 1))  # silent for long: it may have lost its link only
    code, output = finished.run("clean.sh", "--keep", "1", "--yes")
    assert code == 0 and "run a stays: it is live, node 00 on another-host\n" in output
    assert "run b stays: node 00 on another-host has left no word that it ended, and may be running there\n" in output
    assert names(finished) == ["a", "b", "d"]


def test_what_is_no_run_of_this_job_stays(finished, tmp_path):
    elsewhere = (finished.runs / "a").rename(tmp_path / "elsewhere")
    (finished.runs / "a").symlink_to(elsewhere)
    (finished.runs / "mine/artifact").mkdir(parents=True)
    (finished.runs / "b/state/run").write_text("job=another\ncreated=0\ninit_from=\n")
    (finished.runs / "c/out").symlink_to(tmp_path)
    assert finished.run("clean.sh", "--keep", "0", "--yes")[0] == 0
    assert names(finished) == ["a", "b", "mine"] and (elsewhere / "state/run").exists()
    assert (finished.artifact / "node.sh").exists()  # below tmp_path, to which a removed run had a link


def test_a_run_that_another_one_began_from_stays(finished):
    assert finished.run("submit.sh", "--fork", "a", "--run-id", "e")[0] == 0
    code, output = finished.run("clean.sh", "--keep", "1", "--yes")
    assert code == 0 and "run a stays: another one began with its checkpoint\n" in output
    assert names(finished) == ["a", "e"]


def test_what_a_killed_clean_left_is_removed_by_the_next(finished):
    (finished.runs / "a").rename(finished.runs / ".a.removed")
    assert "a" not in finished.run("status.sh", "--all")[1].split()
    assert finished.run("clean.sh", "--keep", "3", "--yes")[0] == 0
    assert sorted(path.name for path in finished.runs.iterdir()) == ["b", "c", "d"]


def checkpoints(run: Path, *val_losses: float) -> Path:
    for step, val_loss in enumerate(val_losses, 1):
        store.save(run / "checkpoints", step, {"weights.pt": b"w" * 5000, "rng.pt": b"r"}, keep=9, val_loss=val_loss)
    return run / "checkpoints"


def test_old_runs_may_keep_their_last_and_best_checkpoint(finished):
    old = checkpoints(finished.runs / "a", 3, 1, 2, 2, 2)
    (old.parent / "mine.bin").write_text("of my own program")
    checkpoints(finished.runs / "d", 3, 1, 2, 2, 2)  # the newest run
    code, output = finished.run("clean.sh", "--keep", "1", "--keep-checkpoints", "--yes")
    assert code == 0 and "done (exit 0): step_00000004 step_00000003 step_00000001\n" in output
    assert "removed a/checkpoints/step_00000004\n" in output and names(finished) == [*FOUR]
    assert sorted(path.name for path in old.iterdir()) == ["best", "step_00000002", "step_00000005"]
    assert store.best(old) == (old / "best").resolve() and store.newest_verified(old)[0] == old / "step_00000005"
    assert {path.name for path in old.parent.iterdir()} >= {"artifact", "logs", "state", "exit", "mine.bin"}
    assert len(list((finished.runs / "d/checkpoints").glob("step_*"))) == 5


def test_the_last_checkpoint_that_stays_is_a_sound_one(finished):
    old = checkpoints(finished.runs / "a", 1, 2, 3)
    (old / "step_00000003/weights.pt").write_bytes(b"damaged")
    assert finished.run("clean.sh", "--keep", "1", "--keep-checkpoints", "--yes")[0] == 0
    assert sorted(path.name for path in old.iterdir()) == ["best", "step_00000001", "step_00000002"]
    for file in old.glob("step_*/rng.pt"):
        file.write_bytes(b"all damaged")
    assert finished.run("clean.sh", "--keep", "1", "--keep-checkpoints", "--yes") == (0, "nothing to remove\n")


def test_a_checkpoint_that_the_disk_does_not_give_stays(finished):
    old = checkpoints(finished.runs / "a", 3, 2, 1, 2, 2)
    unread, damaged = old / "step_00000005/weights.pt", old / "step_00000004/weights.pt"
    unread.unlink()
    unread.symlink_to("/proc/self/mem")  # EIO when it is read, as of a disk that is ill
    with pytest.raises(OSError, match="Input/output error"):
        unread.read_bytes()
    damaged.unlink()
    (old / "step_00000002/weights.pt").unlink()
    code, output = finished.run("clean.sh", "--keep", "1", "--keep-checkpoints", "--yes")
    assert code == 0 and "step_00000005 cannot be read, and stays\n" in output
    assert sorted(path.name for path in old.iterdir()) == ["best", "step_00000003", "step_00000005"]
    unread.unlink()
    unread.symlink_to("/not/mounted/weights.pt")
    output = finished.run("clean.sh", "--keep", "1", "--keep-checkpoints", "--yes")[1]
    assert "step_00000005 cannot be read, and stays\n" in output and (old / "step_00000005").exists()


def test_a_checkpoint_that_the_disk_gives_at_the_second_time_is_the_last_sound_one(finished, tmp_path, monkeypatch):
    old = checkpoints(finished.runs / "a", 1, 2, 3)
    fails_once = tmp_path / "bin/sha256sum"
    fails_once.parent.mkdir()
    sums = shutil.which("sha256sum")
    fails_once.write_text(f'#!/bin/bash\nmkdir {tmp_path}/failed 2>/dev/null && exit 1\nexec {sums} "$@"\n')
    fails_once.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fails_once.parent}:{os.environ['PATH']}")
    assert finished.run("clean.sh", "--keep", "1", "--keep-checkpoints", "--yes")[0] == 0
    assert (tmp_path / "failed").exists()
    assert sorted(path.name for path in old.iterdir()) == ["best", "step_00000001", "step_00000003"]


def test_the_checkpoints_of_another_folder_stay(finished, tmp_path):
    elsewhere = checkpoints(finished.runs / "a", 1, 2, 3).rename(tmp_path / "elsewhere")
    (finished.runs / "a/checkpoints").symlink_to(elsewhere)
    assert finished.run("clean.sh", "--keep", "1", "--keep-checkpoints", "--yes") == (0, "nothing to remove\n")
