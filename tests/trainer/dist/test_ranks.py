"""Real ranks that are killed, stopped, frozen, and started by torchrun; the losses remain bit-identical."""

from __future__ import annotations

import hashlib
import json
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from jobc.runtime.exit_codes import CRASHED, DATA_BROKEN, DONE, PEER_LOST, PREEMPTED, RENDEZVOUS_FAILED
from jobc.tests.checkpoints import newest_verified
from jobc.trainer.checkpoint import store
from jobc.trainer.checkpoint.verified_checkpoint import torch_file_writer
from jobc.trainer.loop.metrics import last_step_lines

from ..conftest import Run, changed, clean_environment
from ..in_process import lines

pytestmark = pytest.mark.xdist_group("ranks")  # one worker: the runs are shared

Tree = Callable[..., dict[str, Any]]
NewRun = Callable[[], Run]

# Three ranks, because two add the same whatever the order; accumulation, dropout and warm-up have state to lose.
THREE = {"world_size": 3, "batch.micro": 4, "batch.accumulation": 2, "loop.steps": 24, "checkpoint.every_steps": 6}


def loss_hex(folder: Path, rank: int = 0) -> dict[int, object]:
    lines = last_step_lines(folder / "metrics" / f"rank_{rank:02d}.jsonl")
    return {step: line["loss_hex"] for step, line in sorted(lines.items())}


def final(folder: Path) -> str:
    return hashlib.sha256((folder / "final" / "weights.pt").read_bytes()).hexdigest()


@pytest.fixture(scope="module")
def whole(gpt: Tree, new_run: NewRun) -> Run:
    """Run three ranks without interruption."""
    run = new_run()
    assert run.run(gpt(THREE)) == [DONE] * 3, run.output(0)
    return run


@pytest.fixture(scope="module")
def two(digits: Tree, new_run: NewRun) -> Run:
    """Return two ranks on the digits; their last batch of an epoch has padding."""
    run = new_run()
    assert run.run(digits({"world_size": 2, "batch.micro": 48})) == [DONE] * 2, run.output(0)
    return run


@pytest.mark.slow
def test_stopped_then_killed_then_resumed_is_bit_identical(whole: Run, gpt: Tree, new_run: NewRun) -> None:
    run, tree = new_run(), gpt(THREE)

    run.start(tree)
    run.wait_for_step(3)
    run.ranks[1].send_signal(signal.SIGTERM)  # one rank is told, all stop after the same step
    assert run.wait() == [PREEMPTED] * 3
    first, damaged = newest_verified(run.folder / "checkpoints")
    assert first is not None
    assert damaged == []
    assert store.step_of_folder(first) == max(loss_hex(run.folder))  # not a single step is lost
    assert "stopped by a signal sent to another rank after step" in run.output(0)

    run.start(tree)
    run.wait_for_step(15)
    run.ranks[2].kill()
    assert run.wait() == [PEER_LOST, PEER_LOST, -signal.SIGKILL]
    told = [line for line in run.output(0).splitlines() if line.startswith("error: ")]
    assert told and told[0].startswith(
        "error: rank 0 lost a peer: "
    )  # behind it a save in the background may say its end

    assert run.run(tree) == [DONE] * 3
    assert "resumed from checkpoints/step_000000" in run.output(0)
    for rank in range(3):
        assert loss_hex(run.folder, rank) == loss_hex(whole.folder)
    assert final(run.folder) == final(whole.folder)
    assert run.output(0).splitlines()[-1].endswith(f"final/weights.pt sha256 {final(whole.folder)}")


@pytest.mark.engine
def test_torchrun_starts_the_same_training(two: Run, digits: Tree, tmp_path: Path) -> None:
    (tmp_path / "train.json").write_text(json.dumps(digits({"world_size": 2, "batch.micro": 48})))
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run(
        [sys.executable, *launcher, "-m", "jobc.trainer"],
        env={
            **clean_environment(),
            "JOBC_RUN_DIR": str(tmp_path),
            "JOBC_TRAIN_JSON": str(tmp_path / "train.json"),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert loss_hex(tmp_path) == loss_hex(two.folder)
    assert final(tmp_path) == final(two.folder)


def test_another_number_of_ranks_continues_with_the_same_samples(two: Run, digits: Tree, new_run: NewRun) -> None:
    run = new_run()
    assert run.run(digits({"loop.steps": 8})) == [DONE]
    assert run.run(digits({"world_size": 2, "batch.micro": 48})) == [DONE] * 2
    assert "step_00000008, saved by 1 ranks" in run.output(0)
    got, expected = (
        [float.fromhex(str(one)) for one in loss_hex(folder).values()] for folder in (run.folder, two.folder)
    )
    assert got == pytest.approx(expected, rel=1e-4)


def test_every_rank_writes_the_same_global_loss_and_its_own_times(two: Run) -> None:
    zero, one = (last_step_lines(two.folder / "metrics" / f"rank_0{rank}.jsonl") for rank in range(2))
    assert [line["loss_hex"] for line in zero.values()] == [line["loss_hex"] for line in one.values()]
    assert all(line["world_size"] == 2 and line["attempt"] == 0 for line in zero.values())
    assert [line["step_s"] for line in zero.values()] != [line["step_s"] for line in one.values()]


def test_the_console_has_a_banner_and_one_line_per_so_many_steps(two: Run) -> None:
    lines = two.output(0).splitlines()
    assert [line.split()[0] for line in lines[:12]] == [
        "job", "run", "attempt", "world", "device", "threads", "model", "data", "batch", "steps", "seed", "versions",
    ]  # fmt: skip
    assert [line.split("  ")[0] for line in lines[12:] if "eta" in line] == ["step 10/20", "step 20/20"]
    assert two.output(1) == ""


def test_the_last_weights_load_into_plain_torch(whole: Run) -> None:
    state = torch.load(whole.folder / "final" / "weights.pt", weights_only=True)
    assert state["token_embedding.weight"].shape == (256, 32)


@pytest.mark.parametrize("frozen", [1, 0])  # 0 serves the store through which the others would ask
def test_a_frozen_rank_is_named_and_the_other_leaves_its_stacks(frozen: int, digits: Tree, new_run: NewRun) -> None:
    timeout_s, other = 6, 1 - frozen
    run = new_run()
    run.start(digits({"world_size": 2, "loop.steps": 10**6, "process_group.step_timeout_s": timeout_s}))
    run.wait_for_step(5)
    run.ranks[frozen].send_signal(signal.SIGSTOP)
    began = time.monotonic()
    assert run.ranks[other].wait(30) == PEER_LOST
    took_s = time.monotonic() - began
    run.end()
    told = run.output(other)
    assert timeout_s - 1 < took_s < timeout_s + 5
    named = f"rank {frozen} on {socket.gethostname()} is not responding"
    assert f"warning: {named}" in told  # before the timeout, as NCCL would end the process
    error = told[told.index("error: ") :]
    gloo = "Timed out waiting|Application timeout caused pair closure"  # as it has one message or two under way
    assert re.match(f"error: rank {other} lost a peer: ({gloo})", error), error
    assert named in error
    assert "in train_step" in told  # of the stacks


HANGS = """
import os, runpy, time
from jobc.trainer.checkpoint import store as checkpoint_store
from jobc.trainer.data.digits import DigitImages

rank, where, seconds = os.environ["RANK"], os.environ["HANGS_IN"], float(os.environ["SLOW_S"])
batch, batches = DigitImages.batch, 0

def slow(self, indices_B):
    global batches
    batches += len(self) > 1000  # of training, not held out; the first is of the warm-up
    if rank == "1" and batches == 2 and len(self) > 1000:
        time.sleep(seconds)
    if rank == "1" and where == ("data" if len(self) > 1000 else "validation") and batches > 5:
        time.sleep(3600)
    return batch(self, indices_B)

def hangs(*args, **kwargs):
    time.sleep(3600)

DigitImages.batch = slow
if where == "save":
    checkpoint_store.save_checkpoint = hangs
runpy.run_module("jobc.trainer", run_name="__main__")
"""
HANG_S = 9  # a thirtieth of it is a tick of the watch, in which a busy machine has to let each rank run


def start_hanging(run: Run, tree: dict[str, Any], where: str, slow_s: float) -> None:
    """Start two ranks, one of which hangs later; the first step of rank 1 takes slow_s longer."""
    changes = {"world_size": 2, "batch.micro": 48, "process_group.step_timeout_s": HANG_S, "validation.every_steps": 8}
    run.start(changed(tree, changes), ["-c", HANGS], HANGS_IN=where, SLOW_S=str(slow_s))


@pytest.mark.slow
@pytest.mark.parametrize(("where", "slow_s"), [("data", HANG_S + 2), ("validation", 0)])
def test_a_living_rank_that_hangs_is_told_with_its_phase(
    where: str, slow_s: float, digits: Tree, new_run: NewRun
) -> None:
    run = new_run()
    start_hanging(run, digits(), where, slow_s)  # with data: a first step that is longer than the timeout of the others
    assert run.ranks[0].wait(90) == PEER_LOST, run.output(0)
    run.end()
    step = 8 if where == "validation" else 5
    told = rf"rank 1 on {socket.gethostname()} has been in {where} of step {step} for \d+ s"
    for rank in range(2):
        assert re.search(f"warning: {told}; the others are waiting for it", run.output(rank)), run.output(rank)
    assert "in slow" in run.output(1)  # of its stacks
    assert re.search(told, run.output(0)[run.output(0).index("error: ") :])


ALL_HANG = """
import runpy, time
from jobc.trainer.data.digits import DigitImages

batch, batches = DigitImages.batch, 0

def reads_for_ever(self, indices_B):
    global batches
    batches += len(self) > 1000  # of training, not held out; the first is of the warm-up
    if batches > 5:
        time.sleep(3600)
    return batch(self, indices_B)

DigitImages.batch = reads_for_ever
runpy.run_module("jobc.trainer", run_name="__main__")
"""


@pytest.mark.parametrize("world_size", [1, 2])
def test_ranks_of_which_none_waits_for_another_end_by_themselves(
    world_size: int, digits: Tree, new_run: NewRun
) -> None:
    run, timeout_s = new_run(), 2 * world_size  # of which it has some: one rank sends no message
    changes = {"world_size": world_size, "batch.micro": 48, "process_group.step_timeout_s": timeout_s}
    run.start(digits({**changes, "checkpoint.every_steps": 4}), ["-c", ALL_HANG])
    run.wait_for_step(4)
    assert [rank.wait(60) for rank in run.ranks] == [PEER_LOST] * world_size, run.output(0)
    run.end()
    for rank in range(world_size):
        stacks, _, last = run.output(rank).partition("error: ")
        told = rf"rank {rank} on {socket.gethostname()} has made no progress in the data phase of step 5 for \d+ s"
        assert re.match(told, last), last
        assert "in reads_for_ever" in stacks
        assert f"the limit is 6 times process_group.step_timeout_s={timeout_s}" in last
    if world_size == 2:
        assert "all ranks have been in the data phase of step 5" in run.output(0)
        assert "each is waiting for its own data" in run.output(0)
    assert (run.folder / "checkpoints" / "step_00000004").exists()


HANGS_AT_FIRST = """
import os, runpy, time
from jobc.trainer.checkpoint import store as checkpoint_store
from jobc.trainer.data.digits import DigitImages
from jobc.trainer.models.mlp import Mlp

def hangs(*args, **kwargs):
    time.sleep(3600)

rank, where = os.environ["RANK"], os.environ["HANGS_IN"]
if rank == "1":  # data that are opened, the folder of a dead mount, what is compiled
    restore = (checkpoint_store, "checkpoints_newest_first")
    at = {"data": (DigitImages, "__init__"), "restore": restore, "forward": (Mlp, "forward")}
    setattr(*at[where], hangs)
runpy.run_module("jobc.trainer", run_name="__main__")
"""


SLOW_AT_FIRST = """
import os, runpy, time
from jobc.trainer.data.digits import DigitImages

made = DigitImages.__init__

def slow(self, *args):
    print("opens its data", flush=True)
    time.sleep(float(os.environ["SLOW_S"]))
    made(self, *args)

DigitImages.__init__ = slow
runpy.run_module("jobc.trainer", run_name="__main__")
"""


@pytest.mark.slow
@pytest.mark.parametrize("where", ["data", "restore", "forward"])
def test_a_rank_that_hangs_before_the_first_step_is_told_with_its_phase(
    where: str, digits: Tree, new_run: NewRun
) -> None:
    run, timeout_s = new_run(), 12  # the ranks have to meet in it as well
    tree = digits({"world_size": 2, "batch.micro": 48, "process_group.init_timeout_s": timeout_s})
    run.start(tree, ["-c", HANGS_AT_FIRST], HANGS_IN=where)
    assert run.ranks[0].wait(90) == PEER_LOST, run.output(0)
    run.end()
    told = rf"rank 1 on {socket.gethostname()} has been in {where} before the first step for \d+ s"
    for rank in range(2):
        assert re.search(f"warning: {told}; the others are waiting for it", run.output(rank)), run.output(rank)
    assert "in hangs" in run.output(1)  # of its stacks
    assert "in build" in run.output(0)
    assert re.search(told, run.output(0)[run.output(0).index("error: ") :])


def test_a_rank_writes_its_stacks_when_asked_also_before_its_first_step_and_goes_on(
    digits: Tree, new_run: NewRun
) -> None:
    run = new_run()
    run.start(digits({"loop.steps": 2}), ["-c", SLOW_AT_FIRST], SLOW_S="1")
    run.wait_for_words("opens its data")
    run.ranks[0].send_signal(signal.SIGQUIT)
    run.wait_for_words("in slow")
    assert run.wait() == [DONE], run.output(0)
    assert "in open_source" in run.output(0)


def test_a_stop_before_the_first_step_does_not_count_as_a_start_that_got_nowhere(digits: Tree, new_run: NewRun) -> None:
    run = new_run()
    for _ in range(2):  # the second one would end with 65
        run.start(digits({"loop.max_fruitless": 1}), ["-c", SLOW_AT_FIRST], SLOW_S="60")
        run.wait_for_words("opens its data")
        run.ranks[0].send_signal(signal.SIGTERM)
        assert run.wait() == [PREEMPTED], run.output(0)
        assert run.output(0).endswith("stopped by SIGTERM before the first step\n")


@pytest.mark.slow
def test_a_disk_that_hangs_in_a_save_is_told_and_waited_for(digits: Tree, new_run: NewRun) -> None:
    run = new_run()
    start_hanging(run, digits({"checkpoint.every_steps": 4, "checkpoint.background": False}), "save", 0)
    deadline, words = time.monotonic() + 120, "has been writing since the end of step 4 for"
    while run.output(0).count(words) < 2:  # the second time after as long again: beyond the timeout
        assert time.monotonic() < deadline, run.output(0)
        assert all(rank.poll() is None for rank in run.ranks), run.output(0)
        time.sleep(0.2)
    assert "in hangs" in run.output(0)
    assert run.output(1) == ""
    run.end()


SLOW_VALIDATION = """
import os, runpy, time
from jobc.trainer.data.digits import DigitImages

batch, reads = DigitImages.batch, 0

def slow(self, indices_B):
    global reads
    reads += len(self) < 1000  # held out; the first read of them comes before the training
    if len(self) < 1000 and reads > 1:
        print("validates", flush=True)
        time.sleep(float(os.environ["SLOW_S"]))
    return batch(self, indices_B)

DigitImages.batch = slow
runpy.run_module("jobc.trainer", run_name="__main__")
"""


def test_a_stop_breaks_a_validation_off_and_saves(digits: Tree, new_run: NewRun) -> None:
    run, tree = new_run(), digits({"world_size": 2, "batch.micro": 4, "batch.accumulation": 12})
    # 45 batches of 4 held-out images for each rank
    whole = new_run()
    assert whole.run(tree) == [DONE] * 2

    run.start(tree, ["-c", SLOW_VALIDATION], SLOW_S="1")
    run.wait_for_words("validates")
    told_at = time.monotonic()
    run.ranks[1].send_signal(signal.SIGTERM)
    assert run.wait() == [PREEMPTED] * 2, run.output(0)
    assert time.monotonic() - told_at < 25
    assert "validation after step 10 was interrupted by the stop" in run.output(0)
    assert [store.step_of_folder(folder) for folder in store.checkpoints_newest_first(run.folder / "checkpoints")] == [
        10
    ]
    assert "val loss" not in run.output(0)

    assert run.run(tree) == [DONE] * 2
    assert "resumed from checkpoints/step_00000010" in run.output(0)
    assert loss_hex(run.folder) == loss_hex(whole.folder)
    measured = [[line["val_loss_hex"] for line in lines(each.folder, "val_loss")] for each in (run, whole)]
    assert measured[0] == measured[1], "the next attempt began with what was broken off"
    assert final(run.folder) == final(whole.folder)


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
    assert run.ranks[0].wait(1) == CRASHED, "it says why, and so must not be the one that ends last"
    assert "\ntrained  4 steps" in run.output(0) and "\ndone  " not in run.output(0)
    assert run.output(1).rstrip().endswith("was not saved; rank 0 printed the reason")


def test_ranks_that_do_not_meet_say_who_is_missing(digits: Tree, new_run: NewRun) -> None:
    run = new_run()
    run.start(digits({"world_size": 2, "process_group.init_timeout_s": 4}))
    run.ranks[1].kill()
    assert run.wait() == [RENDEZVOUS_FAILED, -signal.SIGKILL]
    assert "rank 0: rendezvous timeout: not all 2 ranks joined within 4 s" in run.output(0)
    assert "missing: rank 1" in run.output(0)


def test_different_data_on_two_ranks_is_refused(digits: Tree, new_run: NewRun) -> None:
    code = (
        "import os\n"
        "from jobc.trainer.dist import env; from jobc.trainer.lifecycle import exit_rank as leave\n"
        "from jobc.trainer.dist.process_group import join_process_group\n"
        "from jobc.trainer.build.data_checks import check_same_data\n"
        "try:\n"
        "    with join_process_group(env.parse_environment(os.environ), 20) as group:\n"
        "        check_same_data(['aa', 'bb'][group.rank] * 32, group)\n"
        "except BaseException as error:\n"
        "    leave.exit_with_error(error)\n"
    )
    run = new_run()
    run.start(digits({"world_size": 2}), program=["-c", code])
    assert run.wait() == [DATA_BROKEN] * 2
    assert "the ranks have 2 different data sets" in run.output(1)
    assert "bbbbbbbbbbbb on rank 1" in run.output(1)


def test_another_world_size_than_compiled_is_refused(digits: Tree, new_run: NewRun) -> None:
    run = new_run()
    run.start(digits({"world_size": 2}), WORLD_SIZE="3")
    assert run.wait() == [DATA_BROKEN] * 2
    assert "is for world_size 2, but the launcher set WORLD_SIZE=3" in run.output(0)


def test_a_broken_train_json_is_refused(digits: Tree, new_run: NewRun) -> None:
    run = new_run()
    assert run.run(digits({"optim.lr": "fast", "checkpoint.keep": 1})) == [DATA_BROKEN]
    assert "train.json: 2 problems" in run.output(0)
    assert "Traceback" not in run.output(0)


def test_smoke_checks_messages_and_shares(digits: Tree, new_run: NewRun) -> None:
    run = new_run()
    run.start(digits({"world_size": 2}), program=["-m", "jobc.trainer.smoke"])
    assert run.wait() == [DONE] * 2
    told = run.output(0).splitlines()
    assert [line.split(":")[0] for line in told] == ["ok  process group", "ok  all-reduce", "ok  sharding"]


LEAVES = """
import gc, os, weakref
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from jobc.trainer.dist import env
from jobc.trainer import script
from jobc.trainer.dist.process_group import join_process_group

def work():
    model = DistributedDataParallel(nn.Linear(1, 1))
    for group in (dist.group.WORLD, dist.new_group()):
        weakref.finalize(group, print, "a group is taken apart", flush=True)
    if os.environ["END"] == "script":
        runtime.finish()

if os.environ["END"] == "script":
    runtime = script.init()
    work()
else:
    with join_process_group(env.parse_environment(os.environ), 60) as group:
        work()
gc.collect()
os._exit(0)
"""


@pytest.mark.parametrize("end", ["join", "script"])
def test_no_process_group_is_taken_apart_before_the_process_ends(
    end: str, digits: Tree, new_run: NewRun, tmp_path: Path
) -> None:
    # for its destructor may wait for ever, for a thread that waits for the GIL
    run = new_run()
    run.start(digits({"world_size": 2}), program=["-c", LEAVES], END=end)
    assert run.wait(60) == [DONE] * 2, run.output(0)
    assert "taken apart" not in run.output(0) + run.output(1)


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
        why = "weights.pt is 0 bytes long instead of 3, as rank 1 sees it"
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
        assert title.startswith("error: ") and title.endswith("cannot be read: Stale file handle, as rank 1 sees it")
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


SLOW_DATA = """
import os, runpy, time
from jobc.trainer.data.digits import DigitImages

batch = DigitImages.batch

def slow(self, indices_B):
    time.sleep(0.2 if os.environ["RANK"] == "1" else 0)
    return batch(self, indices_B)

DigitImages.batch = slow
runpy.run_module("jobc.trainer", run_name="__main__")
"""


def test_a_rank_that_reads_slowly_is_named_as_a_straggler(digits: Tree, new_run: NewRun) -> None:
    run = new_run()
    run.start(digits({"world_size": 2, "batch.micro": 48, "validation.every_steps": 100}), ["-c", SLOW_DATA])
    assert run.wait() == [DONE] * 2, run.output(0)
    (line,) = (line for line in run.output(0).splitlines() if line.startswith("straggler: "))
    named = re.fullmatch(
        rf"straggler: rank 1 on {socket.gethostname()}: data takes (\S+) s per step, median (\S+) s, over 20 steps",
        line,
    )
    assert named and float(named[1]) > 0.19 > float(named[2])
