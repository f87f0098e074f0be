"""The score that is printed next to the loss: it is derived from the loss, and missing if it was not measured."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor, nn
from torch.nn import functional

from jobc.runtime import exit_codes
from jobc.trainer.recipe.recipe import Recipe

from ..in_process import lines, train

pytestmark = pytest.mark.usefixtures("settings_of_torch")

Tree = Callable[..., dict[str, Any]]


def hundredfold(logits: Tensor, targets: Tensor) -> Tensor:
    return 100 * functional.cross_entropy(logits.flatten(0, -2), targets.flatten(), reduction="none").view_as(targets)


class OwnLoss(Recipe):
    def loss(self, model: nn.Module, batch: Any) -> tuple[Tensor, int]:
        inputs, targets = batch
        return functional.cross_entropy(model(inputs), targets, reduction="sum"), len(targets)


class OwnScore(OwnLoss):
    score = "share"

    def measure(self, model: nn.Module, batch: Any) -> tuple[Tensor, Tensor, int]:
        inputs, targets = batch
        logits = model(inputs)
        right = (logits.argmax(-1) == targets).sum()
        return functional.cross_entropy(logits, targets, reduction="sum"), right, len(targets)


@pytest.mark.parametrize(
    ("changes", "keys"),
    [
        ({}, {"val_loss", "val_accuracy"}),
        ({"loss": {"_target_": "torch.nn.CrossEntropyLoss", "reduction": "none"}}, {"val_loss"}),
        ({"recipe": f"{__name__}.OwnLoss"}, {"val_loss"}),
        ({"recipe": f"{__name__}.OwnScore"}, {"val_loss", "val_share"}),
    ],
)
def test_a_score_is_shown_where_it_is_measured(
    changes: dict[str, Any], keys: set[str], digits: Tree, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(tmp_path, digits({**changes, "loop.steps": 20})) == exit_codes.DONE
    last = lines(tmp_path, "val_loss")[-1]
    assert last.keys() & {"val_loss", "val_accuracy", "val_share", "val_bits_per_byte"} == keys
    assert ("accuracy" in capsys.readouterr().out) == ("val_accuracy" in keys)
    if keys != {"val_loss"}:
        assert last[max(keys - {"val_loss"})] > 0.1


def test_bits_are_of_cross_entropy_alone_and_tokens_of_text(
    gpt: Tree, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(tmp_path, gpt({"loss": {"_target_": f"{__name__}.hundredfold"}, "loop.steps": 2})) == exit_codes.DONE
    said = capsys.readouterr().out
    assert "bits/" not in said and "tok/s" in said, said
    assert not [line for line in lines(tmp_path, "step") if any(key.startswith("bits_per") for key in line)]
