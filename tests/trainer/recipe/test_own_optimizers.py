"""A user's optimizers with states that torch's own do not have."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from jobc.runtime.exit_codes import DATA_BROKEN, DONE
from jobc.trainer.recipe.optimizer import NAMES, reorder_state

from ..conftest import Run, changed
from ..in_process import train
from ..ways import FSDP, ZERO

Tree = Callable[..., dict[str, Any]]
SCHEDULE = {"lr": 0.1, "warmup_steps": 2, "schedule": "constant", "min_lr_ratio": 0.1, "clip_norm": 1.0}
OWN = """
import os
import torch
from jobc.trainer.recipe import Recipe

class Counting(torch.optim.SGD):
    '''Its state has the number of steps as a plain number, as many published optimizers do; its state_dict() too.'''

    done = 0

    def step(self, closure=None):
        super().step(closure)
        self.done += 1
        for group in self.param_groups:
            for parameter in group["params"]:
                self.state[parameter]["step"] = self.state[parameter].get("step", 0) + 1

    def state_dict(self):
        return {**super().state_dict(), "done": self.done}

    def load_state_dict(self, state_dict):
        self.done = state_dict["done"]
        super().load_state_dict(state_dict)

class OfItsOwn(torch.optim.SGD):
    '''Keeps a number for each row of a gradient that this rank has.'''

    def step(self, closure=None):
        super().step(closure)
        for parameter in self.param_groups[0]["params"]:
            self.state[parameter]["rows"] = parameter.grad.to_local().reshape(len(parameter.grad.to_local()), -1).sum(1)

class WithUnused(Recipe):
    '''One parameter never has a gradient, so AdamW has no state of it.'''

    def build_model(self, source):
        model = super().build_model(source)
        model.register_parameter("unused", torch.nn.Parameter(torch.ones(3)))
        return model

class WithAmsgrad(Recipe):
    def build_optimizer(self, model):
        return torch.optim.AdamW(model.parameters(), lr=1e-3, amsgrad=True)

class AsTold(Recipe):
    '''The parameters in an order of each process, as a set has it.'''

    def build_optimizer(self, model):
        first = int(os.environ["FIRST"]) if "FIRST" in os.environ else int(os.environ["RANK"])
        parameters = list(model.parameters())
        return torch.optim.AdamW(parameters[first:] + parameters[:first], lr=self.config.optim.lr)

class Own(torch.optim.AdamW):
    pass

class WithOwn(Recipe):
    def build_optimizer(self, model):
        return Own(model.parameters(), lr=1e-3)
"""


@pytest.fixture
def start(tmp_path: Path, new_run: Callable[[], Run]) -> Callable[[dict[str, Any]], tuple[Run, list[int]]]:
    (tmp_path / "own.py").write_text(OWN)
    made = new_run()

    def start(tree: dict[str, Any]) -> tuple[Run, list[int]]:
        made.start(tree, PYTHONPATH=f"{tmp_path}:{':'.join(sys.path)}")
        return made, made.wait()

    return start


def test_plain_numbers_in_the_state_are_saved_and_loaded_with_fsdp(
    digits: Tree, start: Callable[[dict[str, Any]], tuple[Run, list[int]]]
) -> None:
    tree = digits({"optim": {"_target_": "own.Counting", **SCHEDULE}, "world_size": 2, "loop.steps": 3})
    run, codes = start({**tree, "parallel": FSDP})
    assert codes == [DONE, DONE], run.output(0)
    run, codes = start({**tree, "parallel": FSDP, "loop": {**tree["loop"], "steps": 5}})
    assert codes == [DONE, DONE], run.output(0)
    newest = max((run.folder / "checkpoints").glob("step_*"))
    saved = torch.load(newest / "optimizer.pt", weights_only=True)
    assert {each["step"] for each in saved["state"].values()} == {saved["done"]} == {5}


def test_what_each_rank_keeps_of_its_own_is_refused_by_saves_of_fsdp(
    digits: Tree, start: Callable[[dict[str, Any]], tuple[Run, list[int]]]
) -> None:
    tree = digits({"optim": {"_target_": "own.OfItsOwn", **SCHEDULE}, "world_size": 2, "loop.steps": 3})
    run, codes = start({**tree, "parallel": FSDP})
    assert codes == [DATA_BROKEN, DATA_BROKEN], run.output(0)
    assert "error: optim: 'rows' in the optimizer state is not sharded" in run.output(0)


def test_an_optimizer_that_cannot_take_the_tensors_of_fsdp_is_named_in_the_first_step(
    digits: Tree, start: Callable[[dict[str, Any]], tuple[Run, list[int]]]
) -> None:
    tree = digits({"optim": {"_target_": "torch.optim.Adafactor", **SCHEDULE}, "world_size": 2})
    run, codes = start({**tree, "parallel": FSDP})
    assert codes == [DATA_BROKEN, DATA_BROKEN], run.output(0)
    assert "error: optim: step() of Adafactor fails on FSDP tensors: " in run.output(0)
    assert "Traceback" not in run.output(0)


def in_order(first: int, monkeypatch: pytest.MonkeyPatch, folder: Path, tree: dict[str, Any]) -> Path:
    monkeypatch.setenv("FIRST", str(first))
    assert train(folder, tree) == DONE
    return folder


@pytest.mark.usefixtures("settings_of_torch")
def test_moments_find_their_parameters_again_in_another_order(
    digits: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    tree = digits({"recipe": "own.AsTold", "model.hidden": 10, "model.layers": 2})
    whole = in_order(0, monkeypatch, tmp_path / "whole", changed(tree, {"loop.steps": 6}))
    resumed = in_order(0, monkeypatch, tmp_path / "resumed", changed(tree, {"loop.steps": 3}))
    in_order(4, monkeypatch, resumed, changed(tree, {"loop.steps": 6}))
    weights = [torch.load(folder / "final/weights.pt", weights_only=True) for folder in (whole, resumed)]
    assert all(torch.allclose(value, weights[1][name], atol=1e-6) for name, value in weights[0].items())


def test_a_state_of_other_parameters_is_refused() -> None:
    state = {"state": {0: "of a", 1: "of b"}, "param_groups": [{"params": [0, 1]}]}
    named = {**state, NAMES: ["a", "b"]}
    assert reorder_state(named, ["a", "b"]) == state
    assert reorder_state(named, ["b", "a"]) == {**state, "state": {1: "of a", 0: "of b"}}
    with pytest.raises(ValueError, match="the optimizer has other parameters:\nb\nc"):
        reorder_state(named, ["a", "c"])


def test_another_order_on_each_rank_is_refused_by_fsdp(
    digits: Tree, start: Callable[[dict[str, Any]], tuple[Run, list[int]]]
) -> None:
    run, codes = start({**digits({"recipe": "own.AsTold", "world_size": 2}), "parallel": FSDP})
    assert codes == [DATA_BROKEN, DATA_BROKEN], run.output(0)
    assert "error: the order of the optimizer's parameters on rank 1 differs from rank 0" in run.output(0)


@pytest.mark.engine
@pytest.mark.parametrize(
    ("recipe", "told"),
    [
        ("own.WithAmsgrad", "ZeRO checkpoints do not support amsgrad"),
        ("own.WithOwn", "returned Own, but ZeRO checkpoints only support Adam"),
    ],
)
def test_a_state_that_saves_of_zero_would_lose_is_refused(
    recipe: str, told: str, digits: Tree, start: Callable[[dict[str, Any]], tuple[Run, list[int]]]
) -> None:
    pytest.importorskip("deepspeed", reason="DeepSpeed is an extra: pip install 'jobc[deepspeed]'")
    run, codes = start({**digits({"recipe": recipe}), "parallel": {**ZERO, "zero_stage": 1}})
    assert codes == [DATA_BROKEN], run.output(0)
    assert told in run.output(0)


@pytest.mark.engine
def test_a_parameter_without_a_state_goes_on_with_zero(
    digits: Tree, start: Callable[[dict[str, Any]], tuple[Run, list[int]]]
) -> None:
    pytest.importorskip("deepspeed", reason="DeepSpeed is an extra: pip install 'jobc[deepspeed]'")
    tree = digits({"recipe": "own.WithUnused", "loop.steps": 3})
    run, codes = start(tree)
    assert codes == [DONE], run.output(0)
    assert len(torch.load(run.folder / "checkpoints/step_00000003/optimizer.pt", weights_only=True)["state"]) == 4
    run, codes = start({**tree, "parallel": {**ZERO, "zero_stage": 1}, "loop": {**tree["loop"], "steps": 5}})
    assert codes == [DONE], run.output(0)
