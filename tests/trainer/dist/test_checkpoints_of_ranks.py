"""Checkpoints of real ranks: full, slow and unreadable disks, and which checkpoint counts."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch

from jobc.runtime.exit_codes import CRASHED, DONE, PEER_LOST
from jobc.trainer.checkpoint import store
from jobc.trainer.checkpoint.verified_checkpoint import torch_file_writer

from ..conftest import Run
from ..in_process import loss_hex

pytestmark = pytest.mark.xdist_group("ranks")  # one worker: the runs are shared
Tree = Callable[..., dict[str, Any]]
NewRun = Callable[[], Run]


FULL_FOR_RANK_0 = """
import os, resource, runpy
if os.environ["RANK"] == "0":  # as on a full disk: metrics fit, a checkpoint does not
    resource.setrlimit(resource.RLIMIT_FSIZE, (9000, resource.RLIM_INFINITY))
runpy.run_module("jobc.trainer", run_name="__main__")
"""


def test_all_ranks_end_after_the_same_step_when_too_many_saves_failed(digits: Tree, new_run: NewRun) -> None:
    run = new_run()
    every = {"checkpoint.every_steps": 4, "checkpoint.max_failures": 2}
    run.start(digits({"world_size": 2, "loop.steps": 10**6, **every}), program=["-c", FULL_FOR_RANK_0])
    assert run.wait() == [CRASHED] * 2, run.output(1)
    assert "warning: step 4 was not saved: [Errno 27] File too large; no checkpoint exists yet" in run.output(0)
    given_up = r"error: step (8|12) was not saved: \[Errno 27\] File too large"  # 12 had begun, on a busy machine
    assert re.search(given_up, run.output(0)), run.output(0)
    (line,) = (line for line in run.output(1).splitlines() if "error" in line)
    assert line.endswith("was not saved; rank 0 printed the reason")
    assert loss_hex(run.folder, 0).keys() == loss_hex(run.folder, 1).keys()


NO_CHECKPOINTS = """
import os, pathlib, runpy, time
from jobc.trainer import export
if os.environ["RANK"] == "0":
    (pathlib.Path(os.environ["JOBC_RUN_DIR"]) / "checkpoints").touch()
    write = export.write_export
    export.write_export = lambda *words: time.sleep(2) or write(*words)
runpy.run_module("jobc.trainer", run_name="__main__")
"""


def test_a_training_whose_last_save_failed_is_not_called_done(digits: Tree, new_run: NewRun) -> None:
    run = new_run()
    run.start(digits({"world_size": 2, "loop.steps": 4}), program=["-c", NO_CHECKPOINTS])
    assert run.ranks[1].wait(60) == CRASHED
    assert run.ranks[0].wait(1) == CRASHED, "rank 0 prints the reason, so it must not wait until the launcher kills it"
    assert "\ntrained  4 steps" in run.output(0) and "\ndone  " not in run.output(0)
    assert run.output(1).rstrip().endswith("was not saved; rank 0 printed the reason")


OWN_FOLDERS = """
import os
from pathlib import Path
from jobc.trainer.checkpoint.verified_checkpoint import newest_verified
from jobc.trainer.checkpoint import store
from jobc.trainer.dist import env
from jobc.trainer.dist.process_group import join_process_group

with join_process_group(env.parse_environment(os.environ), 60) as group:
    root = Path(os.environ["JOBC_RUN_DIR"], f"of_rank_{group.rank}")
    for step in ((195,), (190, 198, 200))[group.rank]:
        folder = store.save_checkpoint(root, step, {"weights.pt": str(step).encode()}, keep=9)
        if step > 195:
            (folder / "weights.pt").write_bytes(b"")
    found = newest_verified(root, group)
    print(found.folder, found.rank, found._read_and_broadcast("weights.pt").read(), *found.damaged, sep="|", flush=True)
"""


def test_the_newest_sound_checkpoint_of_any_node_counts(digits: Tree, new_run: NewRun) -> None:
    run = new_run()
    run.start(digits({"world_size": 2}), program=["-c", OWN_FOLDERS])
    assert run.wait(60) == [DONE] * 2, run.output(0)
    for rank in range(2):
        folder, *said = run.output(rank).strip().split("|")
        assert folder.endswith(f"/of_rank_{rank}/step_00000195")
        why = "weights.pt is 0 bytes long instead of 3 (on rank 1)"
        assert said == ["0", "b'195'", f"step_00000200: {why}", f"step_00000198: {why}"]


UNREAD = """
import builtins, errno, os
from pathlib import Path
from jobc.trainer.checkpoint.verified_checkpoint import newest_verified
from jobc.trainer.checkpoint import store
from jobc.trainer.dist import env
from jobc.trainer import files as patient
from jobc.trainer.dist.process_group import join_process_group
from jobc.trainer.lifecycle.exit_rank import exit_with_error

def refuse(place):
    def refusing(read):
        def called(path, *arguments, **keywords):
            if path == place:
                raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
            return read(path, *arguments, **keywords)
        return called
    builtins.open, os.listdir, os.open = map(refusing, (open, os.listdir, os.open))

patient.PAUSES_S = (0.0, 0.0, 0.0)
try:
    with join_process_group(env.parse_environment(os.environ), 60) as group:
        root = Path(os.environ["JOBC_RUN_DIR"], f"of_rank_{group.rank}")
        folder = store.save_checkpoint(root, 3 + 4 * group.rank, {"weights.pt": b"some"}, keep=9)
        when, name = os.environ["WHEN"], os.environ["NAME"]
        if group.rank == 1 and when == "sought":
            refuse(Path(os.path.normpath(folder / name)))
        found = newest_verified(root, group)
        if group.rank == 1 and when == "read":
            refuse(Path(os.path.normpath(folder / name)))
        found._read_and_broadcast("weights.pt").read()
except BaseException as error:
    exit_with_error(error)
"""


@pytest.mark.parametrize(
    ("when", "name"), [("sought", ".."), ("sought", store.MANIFEST), ("sought", "weights.pt"), ("read", "weights.pt")]
)
def test_all_ranks_end_with_69_when_the_disk_of_one_does_not_give_what_is_there(
    when: str, name: str, digits: Tree, new_run: NewRun
) -> None:
    run = new_run()
    run.start(digits({"world_size": 2}), program=["-c", UNREAD], WHEN=when, NAME=name)
    assert run.wait(60) == [PEER_LOST] * 2, run.output(0)
    for rank in range(2):
        title, hint = run.output(rank).splitlines()
        assert title.startswith("error: ") and title.endswith("cannot be read: Stale file handle (on rank 1)")
        assert "/of_rank_1" in title and "the checkpoint may be intact" in hint
    assert (run.folder / "of_rank_1/step_00000007").is_dir()


LARGE = """
import os, resource
from pathlib import Path
from jobc.trainer.checkpoint.verified_checkpoint import newest_verified
from jobc.trainer.dist import env
from jobc.trainer.dist.process_group import join_process_group

def peak_mb():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000

with join_process_group(env.parse_environment(os.environ), 60) as group:
    found = newest_verified(Path(os.environ["JOBC_RUN_DIR"], "checkpoints"), group)
    before = peak_mb()
    loaded = found.load_file("weights.pt")
    assert loaded.eq(1).all()
    print(round(peak_mb() - before), flush=True)
"""


def test_a_resume_holds_the_bytes_of_a_file_once_beside_its_tensors(digits: Tree, new_run: NewRun) -> None:
    run = new_run()
    large = torch.ones(40_000_000)  # 160 MB, more than two messages
    store.save_checkpoint(run.folder / "checkpoints", 1, {"weights.pt": torch_file_writer(large)}, keep=2)
    run.start(digits({"world_size": 2}), program=["-c", LARGE])
    assert run.wait(60) == [DONE] * 2, run.output(0)
    assert [int(run.output(rank)) < 2.5 * 160 for rank in range(2)] == [True, True], run.output(0)
