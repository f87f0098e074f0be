"""Items that are weights, and may sum to less than one; held-out data in which no item counts."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from jobc.runtime.exit_codes import CRASHED, DATA_BROKEN, PEER_LOST
from jobc.trainer.checkpoint.store import checkpoints_newest_first
from jobc.trainer.lifecycle.errors import BrokenInput
from jobc.trainer.loop.metrics import last_step_lines, read_metrics

from .. import in_process
from ..conftest import Run

pytestmark = pytest.mark.xdist_group("bring_your_own")
Tree = Callable[..., dict[str, Any]]
OWN = """
import os
import torch
from torch.nn import functional as F
from jobc.trainer.recipe import Recipe

def weighted(logits, targets, weight):
    weights = torch.full((4,), weight)
    return F.cross_entropy(logits, targets, weight=weights, reduction="sum"), weights[targets].sum()

class Counted(Recipe):
    '''The same, counted before the forward pass.'''
    def count(self, batch):
        return 2.0 ** -10 * len(batch[1])

class CountedByOne(Counted):
    '''One rank knows before the forward pass how many its items are, and the other does not.'''
    def count(self, batch):
        return None if os.environ["RANK"] == "1" else super().count(batch)

class Blobs:
    def __init__(self, size=48, ignored=False):
        self.size, self.ignored = size, ignored

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        inputs = torch.zeros(32)
        inputs[index % 4 :: 4] = 1.0
        return inputs, -100 if self.ignored else index % 4
"""
BLOBS = {"_target_": "own_items.Blobs"}
TREE: dict[str, Any] = {
    "model": {"_target_": "torch.nn.Linear", "in_features": 32, "out_features": 4},
    "data": {**BLOBS, "val": BLOBS, "collate": None},
    "batch.micro": 12,
    "batch.accumulation": 2,
    "loop.steps": 6,
}


@pytest.fixture(autouse=True)
def in_this_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "own_items", raising=False)
    (tmp_path / "own_items.py").write_text(OWN)
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(False)


def train(folder: Path, tree: dict[str, Any]) -> list[tuple[float, float]]:
    """Return the loss and gradient norm of each step, and then the validation's loss."""
    assert in_process.train(folder, tree) == 0
    file = folder / "metrics" / "rank_00.jsonl"
    steps = [(line["loss"], line["grad_norm"]) for _, line in sorted(last_step_lines(file).items())]
    return [*steps, *((line["val_loss"], 0.0) for line in read_metrics(file) if "val_loss" in line)]  # type: ignore[list-item]


@pytest.mark.parametrize("changes", [{}, {"recipe": "own_items.Counted"}], ids=["counted late", "counted before"])
def test_weights_that_sum_to_less_than_one_change_nothing(
    changes: dict[str, Any], digits: Tree, tmp_path: Path
) -> None:
    found = []
    for weight in (1.0, 2.0**-10):  # a power of two: not even a bit
        loss = {"loss": {"_target_": "own_items.weighted", "weight": weight}}
        theirs = changes if weight < 1 else {}
        found.append(train(tmp_path / str(weight), digits({**TREE, **loss, **theirs})))
    assert len(found[0]) > 6
    for ones, small in zip(*found, strict=True):
        assert small == pytest.approx(ones, rel=1e-6)


def test_a_count_that_one_rank_alone_knows_before_the_forward_pass(
    digits: Tree, new_run: Callable[[], Run], tmp_path: Path
) -> None:
    tree = {**TREE, "loss": {"_target_": "own_items.weighted", "weight": 2.0**-10}, "recipe": "own_items.Counted"}
    alone = train(tmp_path / "alone", digits(tree))[:6]
    two = new_run()
    two.start(
        digits({**tree, "recipe": "own_items.CountedByOne", "world_size": 2, "batch.micro": 6}),
        PYTHONPATH=f"{tmp_path}:{':'.join(sys.path)}",
    )
    assert two.wait() == [0, 0], two.output(0)
    steps = last_step_lines(two.folder / "metrics" / "rank_00.jsonl")
    found = [(line["loss"], line["grad_norm"]) for _, line in sorted(steps.items())]
    for one, other in zip(alone, found, strict=True):
        assert other == pytest.approx(one, rel=1e-5)


def test_held_out_data_in_which_nothing_counts_are_refused(digits: Tree, tmp_path: Path) -> None:
    data = {**BLOBS, "val": {**BLOBS, "size": 20, "ignored": True}, "collate": None}
    with pytest.raises(BrokenInput, match="none of the 20 held-out samples has an item to measure"):
        train(tmp_path, digits({**TREE, "data": data}))


UNREADABLE = """
from own_items import Blobs

class Unreadable(Blobs):
    first = 0

    def __getitem__(self, index):
        if index >= self.first:
            raise OSError(f"shard {index}")
        return super().__getitem__(index)

class Late(Unreadable):
    '''The last one, which is not among those that are tried.'''

    @property
    def first(self):
        return len(self) - 1
"""


@pytest.mark.parametrize(("name", "error"), [("Unreadable", BrokenInput), ("Late", OSError)])
def test_held_out_data_that_cannot_be_read_cost_no_training(
    name: str, error: type[Exception], digits: Tree, tmp_path: Path
) -> None:
    (tmp_path / "unreadable.py").write_text(UNREADABLE)
    sys.modules.pop("unreadable", None)
    data = {**BLOBS, "val": {"_target_": f"unreadable.{name}"}, "collate": None}
    with pytest.raises(error, match="shard"):
        train(tmp_path, digits({**TREE, "data": data, "checkpoint.every_steps": 1000}))
    saved = [path.name for path in checkpoints_newest_first(tmp_path / "checkpoints")]
    assert saved == (["step_00000006"] if name == "Late" else [])


def test_held_out_data_that_one_rank_cannot_read_cost_no_training(
    digits: Tree, new_run: Callable[[], Run], tmp_path: Path
) -> None:
    (tmp_path / "unreadable.py").write_text(UNREADABLE.replace("index >= self.first", "index == 41"))
    started = new_run()
    data = {**BLOBS, "val": {"_target_": "unreadable.Late"}, "collate": None}
    changes = {"data": data, "checkpoint.every_steps": 1000, "world_size": 2, "batch.micro": 6}
    started.start(digits({**TREE, **changes}), PYTHONPATH=f"{tmp_path}:{':'.join(sys.path)}")
    assert started.wait() == [PEER_LOST, CRASHED], started.output(0)
    assert "OSError: shard 41" in started.output(1)
    assert [path.name for path in checkpoints_newest_first(started.folder / "checkpoints")] == ["step_00000006"]


@pytest.mark.parametrize(("given", "code"), [("0", CRASHED), ("None", CRASHED), ("65", DATA_BROKEN), ("'no'", CRASHED)])
def test_what_exits_before_the_training_is_done_has_not_done_it(
    given: str, code: int, digits: Tree, new_run: Callable[[], Run], tmp_path: Path
) -> None:
    (tmp_path / "exits.py").write_text(f"def blobs():\n    raise SystemExit({given})\n")
    started = new_run()
    tree = digits({**TREE, "data": {"_target_": "exits.blobs", "val": None, "collate": None}})
    started.start(tree, PYTHONPATH=f"{tmp_path}:{':'.join(sys.path)}")
    assert started.wait() == [code], started.output(0)
    assert ("sys.exit() was called before" in started.output(0)) == (given in ("0", "None"))


def test_samples_that_are_mappings_are_told_what_they_should_be(digits: Tree, tmp_path: Path) -> None:
    code = (
        "class Named(Blobs):\n    def __getitem__(self, i):\n        return dict(zip('xy', super().__getitem__(i)))\n"
    )
    (tmp_path / "named.py").write_text(f"from own_items import Blobs\n\n{code}")
    sys.modules.pop("named", None)
    data = {"_target_": "named.Named", "val": None, "collate": None}
    with pytest.raises(BrokenInput, match=r"a batch is dict \(x, y\), not \(inputs, target\)\n.*data\.collate"):
        train(tmp_path, digits({**TREE, "data": data}))


def test_a_share_that_holds_out_everything_is_named(digits: Tree, tmp_path: Path) -> None:
    data = {**BLOBS, "size": 1, "val": 0.5, "collate": None}
    with pytest.raises(BrokenInput, match=r"data: 0 samples for 1 ranks\n.*data.val holds out all 1 samples"):
        train(tmp_path, digits({**TREE, "data": data}))
