"""Reads of a user's data before the training: by which rank, and whether a sample is the same for all."""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.data import Dataset

from jobc.runtime import exit_codes
from jobc.trainer.lifecycle.errors import BrokenInput

from ..conftest import Run
from ..in_process import train

pytestmark = pytest.mark.usefixtures("settings_of_torch")

Tree = Callable[..., dict[str, Any]]


class Listed(Dataset[tuple[Tensor, int]]):
    """Records in the file `reads` who reads. The variable ORDER sets the order of a folder's entries."""

    def __init__(self, reads: str = os.devnull, broken: bool = False) -> None:
        self.reads, self.broken = Path(reads), broken
        order = os.environ.get("ORDER")
        self.is_reversed = order in ("reversed", f"reversed on rank {os.environ.get('RANK')}")
        self.is_drawn = order == "drawn"

    def __len__(self) -> int:
        return 48

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        if self.broken:
            raise ValueError(f"sample {index} is torn")
        with self.reads.open("a") as file:
            file.write(f"{os.getpid()}\n")
        if self.is_drawn:
            return torch.tensor(list(os.urandom(4))).float(), index % 3
        return torch.full((4,), float(47 - index if self.is_reversed else index)), index % 3


def changes(**data: Any) -> dict[str, Any]:
    linear = {"_target_": "torch.nn.Linear", "in_features": 4, "out_features": 3}
    own = {"_target_": f"{__name__}.Listed", **data, "val": 0.25, "collate": None}
    return {"model": linear, "data": own, "batch.micro": 4, "loop.steps": 6}


@pytest.mark.parametrize("workers", [0, 2])
def test_where_workers_read_the_rank_reads_nothing(workers: int, digits: Tree, tmp_path: Path) -> None:
    """Files that a data set opens at its first read are not shared with processes that start later."""
    reads = tmp_path / "reads"
    tree = digits({**changes(reads=str(reads)), "loader.workers": workers})
    assert train(tmp_path / "run", tree) == exit_codes.DONE
    readers = set(reads.read_text().split())
    assert (str(os.getpid()) in readers) == (workers == 0)
    assert len(readers) == (1 if workers == 0 else 3 + 2 * workers)  # 3: for the first batches


@pytest.mark.parametrize("workers", [0, 2])
def test_an_error_of_the_first_sample_is_in_its_own_words(workers: int, digits: Tree, tmp_path: Path) -> None:
    before = set(multiprocessing.active_children())  # of earlier tests, whose loaders are not collected yet
    with pytest.raises(BrokenInput, match=r"the loader returned no batch: ValueError: sample \d+ is torn"):
        train(tmp_path, digits({**changes(broken=True), "loader.workers": workers}))
    assert set(multiprocessing.active_children()) <= before, "the process that read has ended"


def test_samples_in_another_order_on_one_rank_are_told(digits: Tree, tmp_path: Path) -> None:
    run = Run(tmp_path / "run")
    tree = digits({**changes(), "world_size": 2})
    run.start(tree, PYTHONPATH=":".join(sys.path), ORDER="reversed on rank 1")
    assert run.wait() == [exit_codes.DONE] * 2, run.output(0)
    assert "warning: data: rank 1 and rank 0 read different bytes for the same sample numbers" in run.output(0)


@pytest.mark.parametrize(("before", "now", "is_told"), [
    ("sorted", "reversed", True), ("sorted", "sorted", False), ("drawn", "drawn", False), ("sorted", "drawn", False),
])  # fmt: skip
def test_samples_in_another_order_than_before_are_told(
    before: str,
    now: str,
    is_told: bool,
    digits: Tree,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ORDER", before)
    assert train(tmp_path, digits(changes())) == exit_codes.DONE
    assert "warning: data" not in capsys.readouterr().out
    monkeypatch.setenv("ORDER", now)
    assert train(tmp_path, digits({**changes(), "loop.steps": 9})) == exit_codes.DONE
    assert ("sample numbers refer to different bytes" in capsys.readouterr().out) == is_told
