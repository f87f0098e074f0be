"""A slow disk: what is reported in the meantime, and that no rank exits because of it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from jobc.runtime.exit_codes import CRASHED, DONE
from jobc.tests.checkpoints import newest_verified
from jobc.trainer.checkpoint import store
from jobc.trainer.checkpoint.background_save import BackgroundSaver
from jobc.trainer.config import train_json
from jobc.trainer.dist.process_group import RankGroup
from jobc.trainer.lifecycle.exit_rank import print_error_once

from ..conftest import Run
from ..in_process import train

pytestmark = pytest.mark.usefixtures("settings_of_torch")

Tree = Callable[..., dict[str, Any]]


class Wrong(torch.nn.Linear):
    """A model with an error in its eleventh pass."""

    def __init__(self) -> None:
        super().__init__(64, 10)
        self.passes = 0

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        self.passes += 1
        if self.passes == 11:
            raise ValueError("the code of a user is wrong here")
        return super().forward(batch)


def test_an_error_is_told_before_the_disk_is_waited_for(
    digits: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    flush, told = os.fsync, [""]

    def slow_flush(descriptor: int) -> None:  # it ends when the error has been told
        deadline = time.monotonic() + 20
        while "is wrong here" not in told[-1] and time.monotonic() < deadline:
            told.append(told[-1] + capfd.readouterr().err)
            time.sleep(0.01)
        flush(descriptor)

    monkeypatch.setattr(os, "fsync", slow_flush)
    with pytest.raises(ValueError, match="is wrong here") as wrong:
        train(tmp_path, digits({"model": {"_target_": f"{__name__}.Wrong"}, "checkpoint.every_steps": 8}))
    assert "in forward" in told[-1]
    assert print_error_once(wrong.value) == CRASHED
    assert capfd.readouterr().err == ""  # told once
    assert (tmp_path / "checkpoints" / "step_00000008").exists()


def test_saves_that_come_faster_than_the_disk_takes_them_are_told_once(
    digits: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    flush = os.fsync

    def slow_flush(descriptor: int) -> None:  # seven times a save
        time.sleep(0.3)
        flush(descriptor)

    monkeypatch.setattr(os, "fsync", slow_flush)
    train(tmp_path, digits({"checkpoint.every_steps": 3, "loop.steps": 10, "validation.every_steps": 99}))
    warnings = [line for line in capsys.readouterr().out.splitlines() if line.startswith("warning:")]
    assert [line[: line.index(" s ")].rstrip("0123456789.") for line in warnings] == ["warning: all ranks waited "]
    assert " s for the save of step 3 before saving step 6: save less often (checkpoint.every_steps)" in warnings[0]


def test_a_rank_that_gets_on_after_its_last_words_saves_again(digits: Tree, tmp_path: Path) -> None:
    config, group = train_json.parse_train_config(digits()).checkpoint, RankGroup(0, 1, torch.device("cpu"))
    saver = BackgroundSaver(tmp_path / "checkpoints", config, group)
    saver.save(1, lambda keep: {"weights.pt": b"1"}, None, wait=False)
    saver.finish_current_save()
    assert newest_verified(tmp_path / "checkpoints")[0] == tmp_path / "checkpoints" / "step_00000001"
    assert saver.save(2, lambda keep: {"weights.pt": b"2"}, None, wait=True)
    saver.close()


SLOW_DISK = """
import os, time
from pathlib import Path
from jobc.trainer.checkpoint.verified_checkpoint import newest_verified
from jobc.trainer.dist.process_group import join_process_group
from jobc.trainer.dist.env import parse_environment

def slow(call):
    def called(*args):
        time.sleep(TIMEOUT_S + 1)
        return call(*args)
    return called

TIMEOUT_S = 3
with join_process_group(parse_environment(os.environ), 60) as group:
    group.use_timeout(TIMEOUT_S)  # as if the data and the model were there at once
    if group.rank == 1:
        os.fstat = slow(os.fstat)  # as a file is hashed, and read
    found = newest_verified(Path(os.environ["JOBC_RUN_DIR"], f"of_rank_{group.rank}"), group)
    print(found.rank, found._read_and_broadcast("state.json").read(), flush=True)
"""


@pytest.mark.slow
def test_a_checkpoint_that_is_read_slowly_is_waited_for(digits: Tree, new_run: Callable[[], Run]) -> None:
    run = new_run()
    store.save_checkpoint(
        run.folder / "of_rank_1", 7, {"state.json": b"{}"}, keep=2
    )  # a folder that one node alone sees
    run.start(digits({"world_size": 2, "batch.micro": 48}), ["-c", SLOW_DISK])
    assert run.wait() == [DONE] * 2, run.output(0)
    assert [run.output(rank) for rank in range(2)] == ["1 b'{}'\n"] * 2
