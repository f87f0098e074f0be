"""Real ranks that hang, are frozen or slow: which rank and phase is reported, and how the others end."""

from __future__ import annotations

import re
import signal
import socket
import time
from collections.abc import Callable
from typing import Any

import pytest

from jobc.runtime.exit_codes import DONE, PEER_LOST, PREEMPTED

from ..conftest import Run, changed

pytestmark = pytest.mark.xdist_group("ranks")  # one worker: the runs are shared
Tree = Callable[..., dict[str, Any]]
NewRun = Callable[[], Run]


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
    told = rf"rank 1 on {socket.gethostname()} has been in the {where} phase of step {step} for \d+ s"
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
    told = rf"rank 1 on {socket.gethostname()} has been in the {where} phase before the first step for \d+ s"
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
    for _ in range(2):  # a second attempt must not end with 65
        run.start(digits({"loop.max_fruitless": 1}), ["-c", SLOW_AT_FIRST], SLOW_S="60")
        run.wait_for_words("opens its data")
        run.ranks[0].send_signal(signal.SIGTERM)
        assert run.wait() == [PREEMPTED], run.output(0)
        assert run.output(0).endswith("stopped by SIGTERM before the first step\n")


@pytest.mark.slow
def test_a_disk_that_hangs_in_a_save_is_told_and_waited_for(digits: Tree, new_run: NewRun) -> None:
    run = new_run()
    start_hanging(run, digits({"checkpoint.every_steps": 4, "checkpoint.background": False}), "save", 0)
    deadline, words = time.monotonic() + 120, "has been writing the checkpoint of step 4 for"
    while run.output(0).count(words) < 2:  # the second time after as long again: beyond the timeout
        assert time.monotonic() < deadline, run.output(0)
        assert all(rank.poll() is None for rank in run.ranks), run.output(0)
        time.sleep(0.2)
    assert "in hangs" in run.output(0)
    assert run.output(1) == ""
    run.end()


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
