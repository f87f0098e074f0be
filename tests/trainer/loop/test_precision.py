"""Precision and determinism of training: the settings of torch on CPU and GPU, and the loss scale of fp16."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from jobc.trainer.build.build import set_determinism
from jobc.trainer.config import train_json
from jobc.trainer.loop.metrics import last_step_lines
from jobc.trainer.parallel.stepper import LossScale

from ..in_process import train

pytestmark = [pytest.mark.xdist_group("training"), pytest.mark.usefixtures("settings_of_torch")]
Tree = Callable[..., dict[str, Any]]


@pytest.mark.parametrize(
    ("device", "asked", "exact"), [("cpu", False, True), ("cuda", False, False), ("cuda", True, True)]
)
def test_a_gpu_gives_the_same_bits_when_asked_and_a_cpu_always(
    digits: Tree, device: str, asked: bool, exact: bool
) -> None:
    torch.use_deterministic_algorithms(False)
    set_determinism(train_json.parse_train_config(digits({"loop.deterministic": asked})), torch.device(device))
    assert torch.are_deterministic_algorithms_enabled() is exact
    torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize(
    ("device", "precision", "products"),
    [("cuda", "fp32", "highest"), ("cuda", "bf16", "high"), ("cpu", "bf16", "highest")],
)
def test_fp32_is_fp32_on_a_gpu_as_well(digits: Tree, device: str, precision: str, products: str) -> None:
    torch.set_float32_matmul_precision("highest")  # as it is at first
    set_determinism(train_json.parse_train_config(digits({"loop.precision": precision})), torch.device(device))
    assert torch.get_float32_matmul_precision() == products
    assert torch.backends.cudnn.allow_tf32 == (precision != "fp32"), "of convolutions; a CPU has none of it"
    torch.use_deterministic_algorithms(False)
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = True  # as it is at first


def test_a_step_that_fp16_overflows_is_left_out_and_told(
    digits: Tree, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobc.trainer.parallel.stepper.FIRST", 2.0**24)
    train(tmp_path, digits({"loop.precision": "fp16", "loop.steps": 12}))
    lines = list(last_step_lines(tmp_path / "metrics" / "rank_00.jsonl").values())
    skipped = [bool(line["skipped"]) for line in lines]
    assert skipped[0] and not skipped[-1]
    assert float(str(lines[-1]["loss_scale"])) == 2.0 ** (24 - sum(skipped))
    assert lines[1]["loss"] != lines[0]["loss"], "other samples"
    said = capsys.readouterr().out
    assert said.count("fp16 overflowed") == sum(skipped)
    assert "step 1/12  skipped (1 so far): fp16 overflowed, loss scale now 8,388,608" in said
    state = torch.load(tmp_path / "checkpoints" / "step_00000012" / "optimizer.pt", weights_only=True)
    assert state["loss_scale"] == {"factor": lines[-1]["loss_scale"], "good_steps": skipped[::-1].index(True)}


def test_gradients_that_no_loss_scale_makes_finite_end_the_run() -> None:
    scale = LossScale(used=True)
    assert [scale.update(finite=False) for _ in range(18)] == [True] * 16 + [False] * 2
    assert scale.factor == 1.0


def test_the_loss_scale_grows_again() -> None:
    scale = LossScale(used=True)
    assert not any(scale.update(finite=True) for _ in range(2000))
    assert scale.factor == 2.0**17
    other = LossScale(used=True)
    other.load_state(scale.state())
    assert other.state() == scale.state() == {"loss_scale": {"factor": 2.0**17, "good_steps": 0}}
