"""When a training run gives up: gradients that remain NaN or Inf, and crash loops."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jobc.runtime.exit_codes import DATA_BROKEN
from jobc.trainer import files
from jobc.trainer.lifecycle.errors import BrokenInput, LossDiverged
from jobc.trainer.loop import attempt_counter
from jobc.trainer.loop.metrics import (
    last_step_lines,
)

from ..in_process import train

pytestmark = [pytest.mark.xdist_group("training"), pytest.mark.usefixtures("settings_of_torch")]
Tree = Callable[..., dict[str, Any]]


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_steps_without_a_finite_gradient_are_skipped_but_not_for_ever(
    precision: str, digits: Tree, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wild = {"optim.lr": 1e38, "optim.clip_norm": None, "optim.warmup_steps": 0, "loop.on_nan": "skip"}
    wild["loop.precision"] = precision
    with pytest.raises(LossDiverged, match="NaN or Inf gradients in more than 3 steps in a row, up to step 5"):
        train(tmp_path, digits({**wild, "loop.max_skips": 3}))
    told = capsys.readouterr().out
    words = "the loss of rank 0 is nan; 1 in a row, limit 3"
    assert f"warning: step 2 skipped without updating the weights: {words}" in told
    lines = last_step_lines(tmp_path / "metrics" / "rank_00.jsonl")
    assert [bool(line.get("skipped")) for line in lines.values()] == [False, True, True, True, True]
    assert lines[2]["loss"] is None
    if precision == "fp16":  # a loss that is NaN is not caused by the loss scale
        assert {line["loss_scale"] for line in lines.values()} == {2.0**16}


def test_a_run_that_gets_nowhere_is_ended_and_may_be_tried_again_by_hand(tmp_path: Path) -> None:
    metrics = tmp_path / "metrics" / "rank_00.jsonl"
    metrics.parent.mkdir()
    metrics.write_text('{"step": 59, "loss": 1}\n')
    attempt_counter.record_start_or_reject_loop(tmp_path, 2)  # came further than anything before
    attempt_counter.record_start_or_reject_loop(tmp_path, 2)  # 1 without a new step
    with pytest.raises(BrokenInput, match="crash loop: 2 consecutive starts completed no step beyond step 59") as e:
        attempt_counter.record_start_or_reject_loop(tmp_path, 2)
    assert e.value.code == DATA_BROKEN
    attempt_counter.record_start_or_reject_loop(tmp_path, 2)
    metrics.write_text('{"step": 60, "loss": 1}\n')
    for _ in range(2):
        attempt_counter.record_start_or_reject_loop(tmp_path, 2)  # the first of them finds a new step
    attempt_counter.record_normal_end(tmp_path)  # preempted: not the run's own fault
    for _ in range(2):
        attempt_counter.record_start_or_reject_loop(tmp_path, 2)


def test_a_run_that_falls_back_further_each_time_gets_nowhere(tmp_path: Path) -> None:
    metrics = tmp_path / "metrics" / "rank_00.jsonl"
    metrics.parent.mkdir()
    ended = []
    for step in (150, 140, 145, 120, 130, 110, 111, 105, 109):
        metrics.write_text(f'{{"step": {step}, "loss": 1}}\n')
        try:
            attempt_counter.record_start_or_reject_loop(tmp_path, 3)
        except BrokenInput as error:
            assert "completed no step beyond step 150" in str(error)
            ended.append(step)
    assert ended == [120, 111], "after three that came no further, and three more, which somebody began by hand"


def test_a_start_whose_disk_does_not_give_the_checkpoints_is_not_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt_counter.record_start_or_reject_loop(tmp_path, 1)
    before = (tmp_path / "state" / "progress").read_text()

    def stale(path: Path) -> list[str]:
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

    with monkeypatch.context() as bad:
        bad.setattr(files, "PAUSES_S", ())
        bad.setattr(os, "listdir", stale)
        attempt_counter.record_start_or_reject_loop(tmp_path, 1)
    assert (tmp_path / "state" / "progress").read_text() == before


@pytest.mark.parametrize("content", [b"", b"\0\0\0\0", b"step=7\n", b"step=\nfruitless=\n"])
def test_a_count_that_a_power_failure_has_left_empty_is_none(tmp_path: Path, content: bytes) -> None:
    progress = tmp_path / "state" / "progress"
    progress.parent.mkdir()
    progress.write_bytes(content)
    attempt_counter.record_start_or_reject_loop(tmp_path, 1)
    assert progress.read_text() == "step=0\nfruitless=0\n"
