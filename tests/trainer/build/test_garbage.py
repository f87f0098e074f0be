"""All ranks collect garbage at the same time, and eventually all of it."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from jobc.trainer.build import garbage_collection
from jobc.trainer.build.garbage_collection import pause_garbage_collection

from ..in_process import train

pytestmark = pytest.mark.usefixtures("settings_of_torch")

Tree = Callable[..., dict[str, Any]]


class Cycle:
    alive = 0

    def __init__(self) -> None:
        self.itself = self
        Cycle.alive += 1

    def __del__(self) -> None:
        Cycle.alive -= 1


class Cyclic(torch.nn.Linear):
    """Keeps of its last pass what refers to itself."""

    def __init__(self) -> None:
        super().__init__(64, 10)
        self.last: Cycle | None = None

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        self.last = Cycle()
        return super().forward(batch)


def test_what_refers_to_itself_does_not_pile_up(digits: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(garbage_collection, "COLLECT_EVERY_STEPS", 2)
    monkeypatch.setattr(garbage_collection, "COLLECT_ALL_EVERY_STEPS", 10)
    train(tmp_path, digits({"model": {"_target_": f"{__name__}.Cyclic"}, "loop.steps": 40}))
    assert Cycle.alive <= 6


def test_nothing_is_collected_during_imports_and_what_they_made_is_not_looked_at_again() -> None:
    before = gc.get_freeze_count()
    with pytest.raises(ImportError), pause_garbage_collection():
        assert not gc.isenabled()
        raise ImportError
    assert gc.isenabled() and gc.get_freeze_count() > before
    gc.unfreeze()
