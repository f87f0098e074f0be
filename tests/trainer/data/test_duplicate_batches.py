"""Ranks that train on the same samples are named; if batches may legitimately be equal, no rank is."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch

from jobc.runtime.exit_codes import DONE
from jobc.trainer.data.duplicate_batches import MOST_STEPS, DuplicateBatchCheck, batch_digest
from jobc.trainer.data.loader import MicroBatch
from jobc.trainer.dist.env import parse_environment
from jobc.trainer.dist.process_group import RankGroup, join_process_group
from jobc.trainer.lifecycle.errors import BrokenInput

from ..conftest import Run

NONE, ONE = torch.zeros(0, dtype=torch.int64), torch.zeros(1, dtype=torch.int64)


def fed(number: int, is_real: bool = True) -> list[MicroBatch]:
    return [MicroBatch(ONE if is_real else NONE, int(not is_real), {"x": torch.tensor([[number]])})]


def by_local_rank(rank: int, step: int) -> list[MicroBatch]:
    """Return batches of two nodes with two ranks each that train on the same samples."""
    return fed(1000 * (rank % 2) + step)


def all_alike(rank: int, step: int) -> list[MicroBatch]:
    return fed(step)


def by_rank(rank: int, step: int) -> list[MicroBatch]:
    return fed(1000 * rank + step)


def constant(rank: int, step: int) -> list[MicroBatch]:
    """Return constant batches, like torch.zeros in a benchmark."""
    return fed(0)


def often_empty(rank: int, step: int) -> list[MicroBatch]:
    """Return batches in which the first samples of ranks 1 and 3 happen to be equal."""
    return fed(-1 if step < 4 and rank % 2 else 1000 * rank + step)


def padded(rank: int, step: int) -> list[MicroBatch]:
    """Return batches of a small data set, of which ranks 2 and 3 get nothing."""
    return fed(100 * rank + step % 2 if rank < 2 else step, is_real=rank < 2)


def few(rank: int, step: int) -> list[MicroBatch]:
    """Return three different batches in turn."""
    return fed(step % 3)


CASES = [by_local_rank, all_alike, by_rank, constant, often_empty, padded, few]
SHORT = 4  # steps, with which there are too few batches to be sure


def test_ranks_that_were_given_the_same_are_named(
    digits: Callable[..., dict[str, Any]], new_run: Callable[[], Run]
) -> None:
    run = new_run()
    path = ":".join(sys.path)
    run.start(digits({"world_size": 4}), ["-m", "jobc.tests.trainer.data.test_duplicate_batches"], PYTHONPATH=path)
    assert run.wait() == [DONE] * 4, run.output(0)
    for rank in range(4):
        assert json.loads(run.output(rank).splitlines()[-1]) == {
            # at the end of a short training, at the end of an epoch, and in a training without an end
            "by_local_rank": [
                [SHORT, "data: ranks 0, 2 and ranks 1, 3 seem to get the same samples in 4 batches"],
                [7, "data: ranks 0, 2 and ranks 1, 3 got the same samples"],
                [MOST_STEPS, "data: ranks 0, 2 and ranks 1, 3 got the same samples"],
            ],
            "all_alike": [
                [SHORT, "data: all 4 ranks seem to get the same samples in 4 batches"],
                [7, "data: all 4 ranks got the same samples"],
                [MOST_STEPS, "data: all 4 ranks got the same samples"],
            ],
            "by_rank": [],
            "constant": [],
            "often_empty": [],
            "padded": [],
            "few": [
                [total, "data: all 4 ranks seem to get the same samples in 3 batches"]
                for total in (SHORT, 7, 2 * MOST_STEPS)
            ],
        }


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr, torch.sparse_csc, torch.strided])
def test_sparse_tensors_are_told_apart_as_dense_ones_are(layout: torch.layout) -> None:
    made = [torch.eye(4), torch.eye(4), 2 * torch.eye(4), torch.eye(4).flip(0)]
    parts = made if layout == torch.strided else [each.to_sparse(layout=layout) for each in made]
    same, again, *others = [batch_digest({"x": part}) for part in parts]
    assert same == again and len({same, *others}) == 3


def verdicts(group: RankGroup, case: Callable[[int, int], list[MicroBatch]]) -> list[Any]:
    """Return (step, words) for each run that raised or warned at the end: a short training, one with 7 steps, and a
    long one.
    """
    found = []
    for total in (SHORT, 7, 2 * MOST_STEPS):
        content, step = DuplicateBatchCheck(group), 0
        try:
            for step in range(1, total + 1):
                content.record_step(case(group.rank, step))
            content.require_different_batches()
            if words := content.undetermined_warning():
                found.append([step, words.removeprefix("warning: ").split(": many")[0]])
        except BrokenInput as error:
            found.append([step, error.title])
    return found


if __name__ == "__main__":
    with join_process_group(parse_environment(os.environ), 60) as joined:
        told = json.dumps({case.__name__: verdicts(joined, case) for case in CASES})
    print(told, flush=True)
