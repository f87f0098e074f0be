"""Which rank is named if ranks hang or are slow: two ranks as threads in this process, with torch's store."""

from __future__ import annotations

import re
import threading
import time

import pytest
from torch.distributed import HashStore, Store  # type: ignore[attr-defined]

from jobc.runtime.exit_codes import PEER_LOST
from jobc.trainer.dist.hang_store import LOOK_TICKS, RankStatus, StatusBoard, describe_culprit
from jobc.trainer.dist.hang_watch import HangWatchdog
from jobc.trainer.dist.phases import Phase, Phases
from jobc.trainer.lifecycle.errors import PeerLost
from jobc.trainer.loop.stragglers import StragglerDetector, WorkTimes

NAMES = ["rank 0 on a", "rank 1 on b"]
TIMEOUT_S = 3.0
GLOO = "[../gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 3000ms for recv operation to complete"


@pytest.mark.parametrize("late", [0, 1])
def test_the_rank_that_does_not_reach_the_step_is_named_by_all(late: int, capfd: pytest.CaptureFixture[str]) -> None:
    store: Store = HashStore()
    ranks = [Phases(), Phases()]
    for rank, phases in enumerate(ranks):
        phases.begin_step(18)
        if rank != late:
            phases.enter("forward")
            phases.enter("exchange")
    ended = []
    with pytest.raises(PeerLost) as first, HangWatchdog(ranks[0], 0, NAMES, TIMEOUT_S, store):
        with pytest.raises(PeerLost) as second, HangWatchdog(ranks[1], 1, NAMES, TIMEOUT_S, store):
            time.sleep(TIMEOUT_S)
            raise RuntimeError("Application timeout caused pair closure")  # another message to that rank was older
        ended.append(second.value)
        raise RuntimeError(GLOO)
    ended.append(first.value)
    named = re.compile(f"{NAMES[late]} has been in the data phase of step 18 for [23] s; the others are waiting for it")
    for error in ended:
        assert error.code == PEER_LOST
        assert named.fullmatch(error.details[0])
    told = capfd.readouterr().err
    assert len(re.findall(f"warning: {named.pattern}", told)) == 2
    assert "in test_the_rank_that_does_not_reach_the_step" in told  # of the stacks


def test_a_rank_that_failed_and_still_writes_is_not_taken_for_frozen() -> None:
    store: Store = HashStore()
    ranks = [Phases(), Phases()]
    for phases in ranks:
        phases.begin_step(14)
        phases.enter("forward")
    ranks[1].enter("exchange")
    with pytest.raises(PeerLost) as lost, HangWatchdog(ranks[1], 1, NAMES, TIMEOUT_S, store):
        with pytest.raises(ValueError, match="of the user"), HangWatchdog(ranks[0], 0, NAMES, TIMEOUT_S, store):
            raise ValueError("of the user")
        time.sleep(TIMEOUT_S)
        raise RuntimeError(GLOO)
    assert lost.value.details[0] == f"{NAMES[0]} failed; see logs/rank_NN.log"


def test_a_rank_that_goes_on_sends_nothing_and_is_not_warned_of(capfd: pytest.CaptureFixture[str]) -> None:
    store: Store = HashStore()
    phases = Phases()
    with HangWatchdog(phases, 0, NAMES, 0.4, store):
        for step in range(20):
            phases.begin_step(step + 1)
            time.sleep(0.05)
    assert capfd.readouterr().err == ""
    assert store.num_keys() == 0


@pytest.mark.parametrize(
    ("step", "part", "phase", "words"),
    [
        (20, "save", "write", "writing the checkpoint of step 20"),
        (0, "restore", "read", "reading a checkpoint before the first step"),
    ],
)
def test_a_disk_that_hangs_is_told_by_its_rank_now_and_then_and_by_nobody_else(
    step: int, part: Phase, phase: Phase, words: str, capfd: pytest.CaptureFixture[str]
) -> None:
    store: Store = HashStore()
    ranks = [Phases(), Phases()]
    with HangWatchdog(ranks[0], 0, NAMES, 0.9, store), HangWatchdog(ranks[1], 1, NAMES, 0.9, store):
        for phases in ranks:
            phases.begin_step(step)
            phases.begin_outside_steps(part)
        ranks[0].enter(phase)
        ends_at = time.monotonic() + 2.2
        while time.monotonic() < ends_at:
            ranks[1].restart_clock()  # it hears from rank 0
            time.sleep(0.05)
    told = capfd.readouterr().err
    warnings = re.findall("^warning: .*", told, re.MULTILINE)
    assert len(warnings) == 2  # after 0.6 and after 1.2 s, the next one would come after 2.4
    said = f"warning: {NAMES[0]} has been {words} for [012] s, and continues; check its disk"
    assert all(re.match(said, warning) for warning in warnings)
    assert "in test_a_disk_that_hangs" in told  # of the stacks


def test_a_hanging_disk_below_on_tick_does_not_blind_the_watch(capfd: pytest.CaptureFixture[str]) -> None:
    hangs, phases = threading.Event(), Phases()
    phases.begin_step(3)

    def flush() -> None:
        hangs.wait(5)

    watch = HangWatchdog(phases, 0, NAMES[:1], 0.6, None)
    watch.on_tick = flush
    with watch:
        time.sleep(0.8)
        told = capfd.readouterr().err
        hangs.set()
    assert "warning: rank 0 on a has been in the data phase of step 3" in told


def test_a_verdict_is_about_the_silent_then_about_those_behind() -> None:
    waiting = RankStatus((7, 3), "exchange", 95.2)
    names = ["r0", "r1", "r2"]
    assert describe_culprit([waiting, None, RankStatus((7, 1), "data", 95.0)], names).startswith("r1 is not responding")
    assert describe_culprit([waiting, RankStatus((6, 9), "save", 97.0), waiting], names) == (
        "r1 has been in the save phase of step 6 for 97 s; the others are waiting for it"
    )
    assert describe_culprit([waiting] * 3, names).startswith(
        "all ranks have been in the exchange phase of step 7 for 95 s: a broken network link"
    )


def test_ranks_that_all_read_do_not_wait_for_a_link() -> None:
    names = ["r0", "r1"]
    data, held_out = (RankStatus((7, 0), "data", 95.2), RankStatus((7, 4), "validation", 95.2))
    of_data = "all ranks have been in the data phase of step 7 for 95 s: each is waiting for its own data"
    assert (
        describe_culprit([data, data], names)
        == describe_culprit([data, RankStatus((7, 5), "data", 91.0)], names)
        == of_data
    )
    in_it = "in the validation phase of step 7 for 95 s"
    all_are = f"all ranks have been {in_it}: each is waiting for its held-out data or is in measure()"
    assert describe_culprit([held_out] * 2, names) == all_are
    one_is_behind = f"r0 has been {in_it}; the others are waiting for it, or for their held-out data as well"
    assert describe_culprit([held_out, RankStatus((7, 7), "validation", 91.0)], names) == one_is_behind


def test_a_straggler_is_named_with_its_phase_once_in_a_while() -> None:
    fast, slow_data = WorkTimes(0.1, 1.0, 3.0), WorkTimes(1.5, 1.0, 3.0)
    stragglers = StragglerDetector([*NAMES, "rank 2 on c"])
    assert stragglers.describe_straggler(10, [fast, slow_data, fast]) == ""  # not long enough yet
    assert stragglers.describe_straggler(10, [fast, slow_data, fast]) == (
        "straggler: rank 1 on b: data takes 0.150 s per step, median 0.010 s, over 20 steps"
    )
    assert stragglers.describe_straggler(20, [fast, slow_data, fast]) == ""  # said
    slow_gpu = WorkTimes(0.1, 2.0, 3.0)
    assert "rank 2 on c: forward takes 0.100 s" in stragglers.describe_straggler(20, [fast, fast, slow_gpu])
    assert StragglerDetector(NAMES).describe_straggler(20, [fast, WorkTimes(0.1, 1.1, 3.0)]) == ""
    tiny = WorkTimes(0.02, 0.02, 0.2)  # a millisecond each, and 4 ms behind
    assert StragglerDetector(NAMES).describe_straggler(20, [tiny, WorkTimes(0.1, 0.02, 0.2)]) == ""


@pytest.mark.parametrize(("looks", "is_frozen"), [(1.4, False), (9, True)])
def test_a_rank_that_is_busy_has_time_for_two_looks_to_show_that_it_lives(looks: float, is_frozen: bool) -> None:
    store: Store = HashStore()
    tick_s = 0.25
    store.set("at/1", '[[18, 1], "data", 3.0]')
    speaks = threading.Timer(looks * LOOK_TICKS * tick_s, store.set, ("at/1", '[[18, 1], "data", 4.0]'))
    speaks.start()
    board = StatusBoard(store, 0, NAMES, lambda: RankStatus((18, 3), "exchange", time.monotonic()), tick_s)
    board.request_verdict()
    answer = board.wait_for_verdict(30)
    speaks.cancel()
    expected = (
        "is not responding"
        if is_frozen
        else "has been in the data phase of step 18 for 4 s; the others are waiting for it"
    )
    assert answer.startswith(f"{NAMES[1]} {expected}")
