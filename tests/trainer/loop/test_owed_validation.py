"""A validation that a stop interrupted is repeated: the next attempt begins with it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jobc.runtime import exit_codes
from jobc.trainer.loop.loop import run_training

from ..in_process import built, lines, train, weights

pytestmark = pytest.mark.usefixtures("settings_of_torch")

Tree = Callable[..., dict[str, Any]]
CHANGES = {"batch.micro": 32, "loop.steps": 10, "validation.every_steps": 5, "checkpoint.every_steps": 5}


class StopsAfter:
    """A signal that arrives when a step has completed, and is seen by the validation after that step."""

    def __init__(self, folder: Path, step: int) -> None:
        self._metrics, self._step = folder / "metrics" / "rank_00.jsonl", step

    def is_stop_requested(self) -> bool:
        return self._metrics.exists() and f'"step": {self._step},' in self._metrics.read_text()

    @property
    def received(self) -> str | None:
        return "SIGTERM" if self.is_stop_requested() else None


@pytest.mark.parametrize("stopped_after", [5, 10])
def test_a_validation_that_was_broken_off_is_the_first_work_of_the_next_attempt(
    stopped_after: int, digits: Tree, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, folder = tmp_path / "whole", tmp_path / "run"
    assert train(whole, digits(CHANGES)) == exit_codes.DONE
    capsys.readouterr()

    assert run_training(built(folder, digits(CHANGES)), StopsAfter(folder, stopped_after)) == exit_codes.PREEMPTED
    assert f"validation after step {stopped_after} was interrupted by the stop" in capsys.readouterr().out
    assert not (folder / "final").exists(), "the last measurement belongs to the training"
    assert [line["step"] for line in lines(folder, "val_loss")] == [5][: stopped_after // 10]

    assert train(folder, digits(CHANGES)) == exit_codes.DONE
    assert [line["val_loss_hex"] for line in lines(folder, "val_loss")] == [
        line["val_loss_hex"] for line in lines(whole, "val_loss")
    ]
    manifest = json.loads((folder / "checkpoints" / f"step_{stopped_after:08d}" / "MANIFEST.json").read_text())
    assert manifest["val_loss"] == lines(folder, "val_loss")[stopped_after // 5 - 1]["val_loss"], "it can be the best"
    assert weights(folder) == weights(whole)

    capsys.readouterr()
    assert train(folder, digits(CHANGES)) == exit_codes.DONE
    assert "val loss" not in capsys.readouterr().out, "it is owed no more"
