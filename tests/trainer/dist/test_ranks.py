"""Real ranks that are killed, stopped, started by torchrun, and refused; the losses remain bit-identical."""

from __future__ import annotations

import hashlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from jobc.runtime.exit_codes import DATA_BROKEN, DONE, PEER_LOST, PREEMPTED, RENDEZVOUS_FAILED
from jobc.tests.checkpoints import newest_verified
from jobc.trainer.checkpoint import store
from jobc.trainer.loop.metrics import last_step_lines

from ..conftest import Run, clean_environment
from ..in_process import lines, loss_hex

pytestmark = pytest.mark.xdist_group("ranks")  # one worker: the runs are shared
Tree = Callable[..., dict[str, Any]]
NewRun = Callable[[], Run]
# Three ranks, because two add the same whatever the order; accumulation, dropout and warm-up have state to lose.
THREE = {"world_size": 3, "batch.micro": 4, "batch.accumulation": 2, "loop.steps": 24, "checkpoint.every_steps": 6}


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
