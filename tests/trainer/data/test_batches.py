"""Which parts of a batch are kept, for how long, and which are copied."""

import weakref

import pytest
import torch
from torch import nn

from jobc.trainer.data.batch_copier import _pin_if_possible
from jobc.trainer.data.exactly_once import ExactlyOnceCheck
from jobc.trainer.data.loader import MicroBatch
from jobc.trainer.data.order import SampleOrder
from jobc.trainer.dist.process_group import RankGroup
from jobc.trainer.parallel.blocks import find_blocks


class Batch:
    """A batch with any number of samples."""


def test_the_proof_keeps_no_batch_and_no_memory_of_a_worker() -> None:
    proof = ExactlyOnceCheck(SampleOrder(0, 64, 2, False), RankGroup(0, 1, torch.device("cpu")), 0)
    batches = [Batch() for _ in range(32)]
    indices = torch.arange(64)
    for at, batch in enumerate(batches):
        proof.record_step([MicroBatch(indices[2 * at : 2 * at + 2], 0, batch)])
    there = [weakref.ref(batch) for batch in batches]
    indices.zero_()  # as when a worker's memory is used again
    del batch, batches
    assert not any(batch() for batch in there)
    assert proof.verify_epoch(32) == "data: 64 samples, 1 rank, overlap 0, missing 0, padded 0 (weight 0), epoch 0"


@pytest.mark.parametrize("tensor", [torch.empty(2, device="meta"), torch.eye(3).to_sparse()], ids=["device", "sparse"])
def test_what_cannot_be_pinned_is_copied_as_it_is(tensor: torch.Tensor) -> None:
    assert _pin_if_possible(tensor) is tensor


@pytest.mark.parametrize("blocks", [12, {"a": 1}, nn.Linear(1, 1), lambda: 3], ids=["int", "dict", "module", "method"])
def test_an_attribute_blocks_that_is_no_list_names_none(blocks: object) -> None:
    model = nn.Module()
    object.__setattr__(model, "blocks", blocks)
    assert find_blocks(model) == []


def test_the_blocks_of_a_list_are_its_modules() -> None:
    model = nn.Module()
    model.blocks = nn.ModuleList([nn.Linear(1, 1), nn.Linear(1, 1)])
    assert find_blocks(model) == [*model.blocks]
