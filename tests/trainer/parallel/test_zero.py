"""parallel=deepspeed on CPUs with gloo: checkpoints fit all stages and ways. What it trains: test_ways.py."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from jobc.tests.trainer.conftest import Run
from jobc.trainer.config.deepspeed_json import deepspeed_config, find_contradictions
from jobc.trainer.loop.metrics import last_step_lines

from ..ways import ZERO

pytest.importorskip("deepspeed", reason="DeepSpeed is an extra: pip install 'jobc[deepspeed]'")
pytestmark = pytest.mark.engine

Tree = Callable[..., dict[str, Any]]
NewRun = Callable[[], Run]

TWO = {"world_size": 2, "batch.micro": 24, "batch.accumulation": 2, "optim.lr": 1e-3, "loop.steps": 12}


def losses(folder: Path) -> list[float]:
    return [
        float(str(line["loss"])) for _, line in sorted(last_step_lines(folder / "metrics" / "rank_00.jsonl").items())
    ]


def final(folder: Path) -> dict[str, torch.Tensor]:
    loaded: dict[str, torch.Tensor] = torch.load(folder / "final" / "weights.pt", weights_only=True)
    return loaded


def run(tree: dict[str, Any], new_run: NewRun) -> Run:
    made = new_run()
    codes = made.run(tree)
    assert codes == [0] * tree["world_size"], made.output(0)
    return made


@pytest.mark.slow
def test_a_resumed_run_is_bit_identical_and_may_change_its_stage_and_ranks(gpt: Tree, new_run: NewRun) -> None:
    tree = {**gpt(TWO), "parallel": {**ZERO, "zero_stage": 3}}
    whole = run(tree, new_run)
    half = {**tree, "loop": {**tree["loop"], "steps": 6}}
    resumed = run(half, new_run)
    assert resumed.run(tree) == [0, 0], resumed.output(0)
    assert "checkpoints/step_00000006" in resumed.output(0)
    mine, theirs = (run.folder / "final" / "weights.pt" for run in (resumed, whole))
    assert mine.read_bytes() == theirs.read_bytes()

    other = run(half, new_run)
    alone = {**TWO, "world_size": 1, "batch.micro": 48}
    assert other.run({**gpt(alone), "parallel": {**ZERO, "zero_stage": 1}}) == [0], other.output(0)
    assert losses(other.folder)[-1] == pytest.approx(losses(whole.folder)[-1], abs=0.05)  # other dropout


def test_parameters_that_the_ranks_cannot_share_evenly_are_resumed(digits: Tree, new_run: NewRun) -> None:
    """The last part of a parameter is padded, and a rank may have none: the smallest here has 1 element."""
    tree = digits({"world_size": 3, "batch.micro": 32, "model.hidden": 1, "loop.steps": 4})
    tree["parallel"] = {**ZERO, "zero_stage": 3}
    resumed = run({**tree, "loop": {**tree["loop"], "steps": 2}}, new_run)
    assert resumed.run(tree) == [0] * 3, resumed.output(0)
    mine, theirs = (made.folder / "final" / "weights.pt" for made in (resumed, run(tree, new_run)))
    assert mine.read_bytes() == theirs.read_bytes()


def test_bf16_is_autocast_over_fp32_weights(digits: Tree, new_run: NewRun) -> None:
    tree = digits({**TWO, "loop.precision": "bf16", "loop.steps": 5})
    made = run({**tree, "parallel": {**ZERO, "zero_stage": 1}}, new_run)
    assert all(value.dtype == torch.float32 for value in final(made.folder).values())
    assert all(math.isfinite(loss) for loss in losses(made.folder))


def test_a_deepspeed_json_that_was_edited_ends_with_65_and_both_names(digits: Tree, new_run: NewRun) -> None:
    made = new_run()
    tree = {**digits(TWO), "parallel": ZERO}
    edited = made.folder.parent / f"{made.folder.name}.deepspeed.json"
    edited.write_text(json.dumps({**deepspeed_config(tree), "train_batch_size": 48}))
    assert made.run(tree, JOBC_DEEPSPEED_JSON=str(edited)) == [65, 65]
    assert "train_batch_size: 48, not 96" in made.output(0)
    assert str(edited) in made.output(0) and "train.json" in made.output(0)


def test_what_a_deepspeed_json_says_beyond_train_json_is_its_own(digits: Tree) -> None:
    tree = {**digits(TWO), "parallel": ZERO}
    ours = deepspeed_config(tree)
    assert find_contradictions({**ours, "steps_per_print": 10}, tree) == []
    assert find_contradictions({key: value for key, value in ours.items() if key != "gradient_clipping"}, tree)
    assert find_contradictions({**ours, "bf16": {"enabled": True}}, tree) == ["bf16: set, but loop.precision omits it"]
    offload = {**ours["zero_optimization"], "offload_optimizer": {"device": "cpu"}}
    assert find_contradictions({**ours, "zero_optimization": offload}, tree) == [
        "zero_optimization.offload_optimizer: set, but parallel omits it"
    ]
    assert (
        ours["train_batch_size"]
        == 96
        == 2 * ours["train_micro_batch_size_per_gpu"] * ours["gradient_accumulation_steps"]
    )


SGD = """
import torch
from jobc.trainer.recipe import Recipe

class Own(Recipe):
    def build_optimizer(self, model):
        return torch.optim.SGD(model.parameters(), lr=self.config.optim.lr)
"""
LATE = """
from jobc.trainer.recipe import Recipe

class Own(Recipe):
    def count(self, batch):
        return None

    def loss(self, model, batch):
        return super().loss(model, batch)[0], float(len(batch[1]))
"""


@pytest.mark.parametrize(
    ("own", "said"),
    [
        (SGD, "recipe: build_optimizer() returned SGD, but ZeRO checkpoints only support Adam"),
        (LATE, "loss: deepspeed accumulates gradients itself"),
    ],
    ids=["an optimizer whose state it cannot gather", "a loss that alone can count"],
)
def test_a_recipe_that_zero_cannot_train_is_refused_before_the_first_step(
    own: str, said: str, digits: Tree, new_run: NewRun, tmp_path: Path
) -> None:
    (tmp_path / "own.py").write_text(own)
    started = new_run()
    tree = {**digits({"recipe": "own.Own"}), "parallel": {**ZERO, "zero_stage": 1}}
    assert started.run(tree, PYTHONPATH=os.pathsep.join([*sys.path, str(tmp_path)])) == [65], started.output(0)
    assert f"error: {said}" in started.output(0)
    assert not (started.folder / "metrics" / "rank_00.jsonl").exists(), "no step was made"
