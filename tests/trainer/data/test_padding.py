"""Padding in the last batch of an epoch, and batches that only have padding, do not change the model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from jobc.runtime import exit_codes
from jobc.trainer.lifecycle.errors import BrokenInput

from ..in_process import lines, train

pytestmark = pytest.mark.usefixtures("settings_of_torch")

Tree = Callable[..., dict[str, Any]]


class Normed(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(nn.BatchNorm1d(4), nn.Linear(4, 3))


class Shifted(Dataset[tuple[Tensor, int]]):
    """Inputs around 3. ignored: every so many targets are -100"""

    def __init__(self, size: int, ignored: int | None = None) -> None:
        self.size, self.ignored = size, ignored
        self.inputs = torch.randn(size, 4, generator=torch.Generator().manual_seed(0)) + 3.0

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.inputs[index], -100 if self.ignored and index % self.ignored == 0 else index % 3


def tree_of(size: int, **changes: Any) -> dict[str, Any]:
    data = {"_target_": f"{__name__}.Shifted", "size": size, **changes}
    return {"model": {"_target_": f"{__name__}.Normed"}, "data": {**data, "val": None, "collate": None}}


def test_running_means_are_of_samples_and_not_of_padding(digits: Tree, tmp_path: Path) -> None:
    changes = {"batch.micro": 8, "batch.accumulation": 64, "loop.steps": None, "loop.epochs": 1}
    assert train(tmp_path, digits({**tree_of(1030), **changes})) == exit_codes.DONE  # at last 6 samples of 512
    made = torch.load(tmp_path / "final" / "weights.pt", weights_only=True)
    assert made["0.running_mean"] == pytest.approx([3.0] * 4, abs=0.6)
    assert made["0.running_var"] == pytest.approx([1.0] * 4, abs=0.6)
    assert int(made["0.num_batches_tracked"]) == 2 * 64 + 1


LOSSES = ["torch.nn.CrossEntropyLoss", "torch.nn.functional.cross_entropy"]


@pytest.mark.parametrize("loss", LOSSES)
def test_targets_that_a_loss_of_torch_ignores_do_not_count(loss: str, digits: Tree, tmp_path: Path) -> None:
    changes = {**tree_of(96, ignored=2), "batch.micro": 16, "loop.steps": 4}
    train(tmp_path / "ours", digits(changes))
    train(tmp_path / "theirs", digits({**changes, "loss": {"_target_": loss, "reduction": "none"}}))
    ours, theirs = (lines(tmp_path / name, "grad_norm") for name in ("ours", "theirs"))
    for mine, other in zip(ours, theirs, strict=True):
        assert [mine["loss"], mine["grad_norm"]] == pytest.approx([other["loss"], other["grad_norm"]], rel=1e-6)


def test_a_step_in_which_nothing_counts_ends_the_run_or_is_left_out(digits: Tree, tmp_path: Path) -> None:
    linear = {"_target_": "torch.nn.Linear", "in_features": 4, "out_features": 3}
    changes = {**tree_of(6, ignored=6), "model": linear, "batch.micro": 1, "loop.steps": 6}
    with pytest.raises(BrokenInput, match=r"no rank has items to train on in step \d"):
        train(tmp_path / "stop", digits(changes))
    assert train(tmp_path / "skip", digits({**changes, "loop.on_nan": "skip"})) == exit_codes.DONE
    assert [line["skipped"] for line in lines(tmp_path / "skip", "skipped")] == ["no rank has items to train on"]
