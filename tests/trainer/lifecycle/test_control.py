"""The files with which people control a running job: control/STOP and control/SAVE."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jobc.runtime import exit_codes
from jobc.trainer.checkpoint import store
from jobc.trainer.lifecycle.requests import SaveRequest

from ..in_process import train

pytestmark = pytest.mark.usefixtures("settings_of_torch")

Tree = Callable[..., dict[str, Any]]


def test_the_stop_file_ends_a_run_for_good(digits: Tree, tmp_path: Path) -> None:
    (tmp_path / "control").mkdir()
    (tmp_path / "control" / "STOP").touch()
    assert train(tmp_path, digits()) == exit_codes.DONE
    assert (tmp_path / "checkpoints" / "step_00000001").exists()
    assert not (tmp_path / "final").exists()


def test_the_save_file_saves_once_and_goes_on(digits: Tree, tmp_path: Path) -> None:
    (tmp_path / "control").mkdir()
    (tmp_path / "control" / "SAVE").touch()
    train(tmp_path, digits({"loop.steps": 3}))
    assert not (tmp_path / "control" / "SAVE").exists()
    assert [path.name for path in store.checkpoints_newest_first(tmp_path / "checkpoints")] == [
        "step_00000003",
        "step_00000001",
    ]


def test_a_save_file_that_cannot_be_removed_counts_once(
    digits: Tree, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "control" / "SAVE"
    file.mkdir(parents=True)
    train(tmp_path, digits({"loop.steps": 8, "checkpoint.keep": 9}))
    assert [path.name for path in store.checkpoints_newest_first(tmp_path / "checkpoints")] == [
        "step_00000008",
        "step_00000001",
    ]
    assert capsys.readouterr().out.count(f"warning: {file} was handled but cannot be removed: Is a directory") == 1

    request = SaveRequest(tmp_path)
    assert request.is_made()
    request.remove_request()
    assert not request.is_made()
    (file / "again").touch()
    assert request.is_made()
