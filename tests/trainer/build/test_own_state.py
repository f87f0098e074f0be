"""State that a user's model or optimizer keeps besides weights and moments: a resume restores or rejects it."""

from __future__ import annotations

import os
from collections import namedtuple
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import torch

from jobc.runtime.exit_codes import DATA_BROKEN, DONE
from jobc.trainer.build.build import build
from jobc.trainer.config import train_json
from jobc.trainer.dist import env as environment
from jobc.trainer.dist.process_group import RankGroup
from jobc.trainer.lifecycle.errors import BrokenInput
from jobc.trainer.loop.loop import run_training
from jobc.trainer.parallel.ddp import require_broadcastable_buffers

from ..conftest import Run
from ..in_process import Signals
from ..ways import FSDP, HSDP, ZERO

pytestmark = [pytest.mark.xdist_group("own_state"), pytest.mark.usefixtures("settings_of_torch")]

Tree = Callable[..., dict[str, Any]]
HERE = "jobc.tests.trainer.build.test_own_state"
RATES = {"lr": 1e-2, "warmup_steps": 2, "schedule": "constant", "min_lr_ratio": 0.1, "clip_norm": 1.0}
Pair = namedtuple("Pair", "first second")


def train(folder: Path, tree: dict[str, Any]) -> int:
    """Train in this process, with world size 1."""
    values = environment.parse_environment({"JOBC_RUN_DIR": str(folder)})
    group = RankGroup(0, 1, torch.device("cpu"))
    return run_training(build(train_json.parse_train_config(tree), values, group), Signals())  # type: ignore[arg-type]


def optim(name: str, **arguments: Any) -> dict[str, Any]:
    return {"_target_": f"{HERE}.{name}", **arguments, **RATES}


# ---- what cannot be trained


class Lazy(torch.nn.Sequential):
    def __init__(self) -> None:
        super().__init__(torch.nn.LazyLinear(10))


class Expanded(torch.nn.Linear):
    def __init__(self) -> None:
        super().__init__(64, 10)
        self.register_buffer("places", torch.arange(6).expand(3, 6))


class Meta(torch.nn.Linear):
    def __init__(self) -> None:
        super().__init__(64, 10, device="meta")


@pytest.mark.parametrize(
    ("model", "told"),
    [
        ("Meta", "model: tensors on the `meta` device have no values: weight, bias"),
        ("Lazy", "model: uninitialized (lazy) parameters: 0.weight, 0.bias"),
        ("Expanded", "model: elements of a tensor share memory: places"),
    ],
)
def test_a_tensor_that_no_checkpoint_could_fill_is_named_before_the_first_step(
    model: str, told: str, digits: Tree, tmp_path: Path
) -> None:
    with pytest.raises(BrokenInput) as refused:
        train(tmp_path, {**digits(), "model": {"_target_": f"{HERE}.{model}"}})
    assert refused.value.title == told and refused.value.hint


class Complex(torch.nn.Linear):
    def __init__(self) -> None:
        super().__init__(64, 10)
        self.turn = torch.nn.Parameter(torch.ones(10, dtype=torch.complex64))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return (super().forward(inputs) * self.turn).real


def test_complex_parameters_are_trained(digits: Tree, tmp_path: Path) -> None:
    assert train(tmp_path, {**digits({"loop.steps": 3}), "model": {"_target_": f"{HERE}.Complex"}}) == DONE


class InHalf(torch.nn.Sequential):
    """A model with two layers that share one weight, and a buffer whose type is kept."""

    def __init__(self) -> None:
        super().__init__(torch.nn.Linear(64, 64), torch.nn.Linear(64, 64), torch.nn.BatchNorm1d(64))
        self.to(torch.bfloat16)
        self[1].weight = self[0].weight
        self.register_buffer("exact", torch.zeros(3, dtype=torch.float64))


def test_a_model_of_16_bits_is_trained_as_float32_and_says_so(
    digits: Tree, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tree = digits({"loop.steps": 1, "checkpoint.every_steps": 1})
    assert train(tmp_path, {**tree, "model": {"_target_": f"{HERE}.InHalf"}}) == DONE
    weights, moments = newest(tmp_path, "weights.pt"), newest(tmp_path, "optimizer.pt")["state"]
    of_floats = {value.dtype for value in (*weights.values(), moments[0]["exp_avg"]) if value.is_floating_point()}
    assert of_floats == {torch.float32, torch.float64} and torch.equal(weights["0.weight"], weights["1.weight"])
    told = "model: 4,352 parameters were bfloat16 and are converted to float32; loop.precision=bf16 computes in bf16"
    assert told in capsys.readouterr().out


class Unlike(torch.nn.Linear):
    """A model whose initial weights and buffers differ on each rank; it trains only with those of rank 0."""

    def __init__(self) -> None:
        super().__init__(64, 10)
        torch.nn.init.constant_(self.weight, float(os.environ["RANK"]))
        self.register_buffer("kept", torch.full((2, 3), int(os.environ["RANK"]), dtype=torch.int16).t())
        self.register_buffer("not_kept", torch.tensor(float(os.environ["RANK"])), persistent=False)
        self.is_first_pass = True

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        if self.is_first_pass:
            assert not self.weight.any() and not self.kept.any() and not self.not_kept.any()
        self.is_first_pass = False
        return super().forward(inputs)


@pytest.mark.parametrize(
    "parallel",
    [FSDP, {**HSDP, "shards": 1}, pytest.param({**ZERO, "zero_stage": 1}, marks=pytest.mark.engine)],
    ids=lambda parallel: str(parallel["kind"]),
)
def test_all_ranks_begin_with_the_weights_and_buffers_of_rank_0(
    parallel: dict[str, Any], digits: Tree, new_run: Callable[[], Run]
) -> None:
    if parallel["kind"] == "deepspeed":
        pytest.importorskip("deepspeed", reason="DeepSpeed is an extra: pip install 'jobc[deepspeed]'")
    run, model = new_run(), {"_target_": f"{HERE}.Unlike"}
    codes = run.run({**digits({"world_size": 2, "loop.steps": 1}), "model": model, "parallel": parallel})
    assert codes == [DONE, DONE], run.output(0) + run.output(1)


class Loss(torch.nn.CrossEntropyLoss):
    """A loss with class weights in a buffer, like torch's own, and a frozen parameter."""

    def __init__(self) -> None:
        super().__init__(torch.ones(10), reduction="none")
        self.frozen = torch.nn.Parameter(torch.ones(1), requires_grad=False)


class LossThatLearns(Loss):
    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(1))


class LossThatCounts(Loss):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(1))

    def forward(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        self.seen += 1
        return super().forward(outputs, targets)


def test_a_loss_may_have_constants(digits: Tree, tmp_path: Path) -> None:
    assert train(tmp_path, {**digits({"loop.steps": 1}), "loss": {"_target_": f"{HERE}.Loss"}}) == DONE


@pytest.mark.parametrize(
    ("loss", "told"),
    [
        ("LossThatLearns", "LossThatLearns has parameters, which would not be trained: scale"),
        ("LossThatCounts", "LossThatCounts changes buffers, which would not be saved: seen"),
    ],
)
def test_a_loss_with_something_to_learn_or_to_keep_is_refused_before_the_first_step(
    loss: str, told: str, digits: Tree, tmp_path: Path
) -> None:
    with pytest.raises(BrokenInput, match=told):
        train(tmp_path, {**digits(), "loss": {"_target_": f"{HERE}.{loss}"}})


# ---- what cannot be read back


class KeepsADate(torch.nn.Linear):
    def __init__(self) -> None:
        super().__init__(64, 10)

    def get_extra_state(self) -> Any:
        return date(2026, 1, 1)


class KeepsANote(torch.optim.SGD):
    """An optimizer whose state has `note` from the first step on."""

    note: object = date(2026, 1, 1)

    def step(self, closure: Any = None) -> None:
        super().step(closure)
        for parameter in self.param_groups[0]["params"]:
            self.state[parameter]["note"] = self.note


class KeepsAPair(KeepsANote):
    note = Pair(torch.ones(2), 1)


@pytest.mark.parametrize(
    ("own", "told"),
    [
        ({"model": {"_target_": f"{HERE}.KeepsADate"}}, "the model's state_dict: .*\n.* datetime.date "),
        ({"optim": optim("KeepsANote")}, "the optimizer's state_dict: .*\n.* datetime.date "),
        ({"optim": optim("KeepsAPair")}, "the optimizer's state_dict: .*\n.*Pair "),
    ],
    ids=["model", "optimizer", "named tuple"],
)
@pytest.mark.parametrize("background", [True, False])
def test_a_state_that_no_resume_could_read_is_refused_and_not_saved(
    background: bool, own: dict[str, Any], told: str, digits: Tree, tmp_path: Path
) -> None:
    with pytest.raises(BrokenInput, match=told):
        train(tmp_path, digits({**own, "checkpoint.every_steps": 2, "checkpoint.background": background}))
    assert not (tmp_path / "checkpoints").exists()


# ---- what is given back


class Counting(torch.optim.AdamW):
    """An optimizer whose state_dict() has an extra number that its load_state_dict() needs."""

    done = 0

    def step(self, closure: Any = None) -> None:
        self.done += 1
        super().step(closure)

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "done": self.done}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.done = state_dict["done"]
        super().load_state_dict({key: value for key, value in state_dict.items() if key != "done"})


class Forgetting(Counting):
    """Does not give the number that it needs."""

    def state_dict(self) -> dict[str, Any]:
        return torch.optim.AdamW.state_dict(self)


def newest(folder: Path, name: str) -> Any:
    return torch.load(max((folder / "checkpoints").glob("step_*")) / name, weights_only=True)


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_what_an_optimizer_adds_to_its_state_dict_is_given_back(precision: str, digits: Tree, tmp_path: Path) -> None:
    for steps in (3, 5):
        tree = digits({"optim": optim("Counting"), "loop.steps": steps, "loop.precision": precision})
        assert train(tmp_path, tree) == DONE
    saved = newest(tmp_path, "optimizer.pt")
    assert saved["done"] == 5
    assert ("loss_scale" in saved) is (precision == "fp16")


def test_a_state_that_the_optimizer_does_not_take_is_told_as_that(digits: Tree, tmp_path: Path) -> None:
    tree = digits({"optim": optim("Forgetting"), "loop.steps": 3})
    assert train(tmp_path, tree) == DONE
    with pytest.raises(BrokenInput, match="step_00000003 does not match the optimizer\n  KeyError: 'done'\n"):
        train(tmp_path, tree)


class Passes(torch.nn.Linear):
    """A module whose extra state is a tensor whose size is the number of training passes."""

    num = 0

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        self.num += self.training
        return super().forward(inputs)

    def get_extra_state(self) -> Any:
        return torch.ones(self.num)

    def set_extra_state(self, state: Any) -> None:
        self.num = len(state)


class KeepsANumber(torch.nn.Module):
    """A module whose extra state is the number of passes when it was last set."""

    given = 0

    def __init__(self) -> None:
        super().__init__()
        self.inner = Passes(64, 10)

    def forward(self, inputs: torch.Tensor) -> Any:
        return self.inner(inputs)

    def get_extra_state(self) -> Any:
        return {"given": self.given, "passes": self.inner.num}

    def set_extra_state(self, state: Any) -> None:
        self.given = state["passes"]


EXTRA = {"model": {"_target_": f"{HERE}.KeepsANumber"}, "loop.steps": 3}


def test_extra_state_is_given_back_by_fsdp(digits: Tree, new_run: Callable[[], Run]) -> None:
    run, parallel = new_run(), {**FSDP, "auto_wrap_policy": "NO_WRAP"}
    for steps in (3, 5):
        codes = run.run({**digits({**EXTRA, "world_size": 2, "loop.steps": steps}), "parallel": parallel})
        assert codes == [DONE, DONE], run.output(0) + run.output(1)
    saved = newest(run.folder, "weights.pt")
    assert saved["_extra_state"] == {"given": 4, "passes": 6}  # one was before the first step
    assert len(saved["inner._extra_state"]) == 6


@pytest.mark.engine
def test_extra_state_is_refused_by_zero(digits: Tree, new_run: Callable[[], Run]) -> None:
    pytest.importorskip("deepspeed", reason="DeepSpeed is an extra: pip install 'jobc[deepspeed]'")
    run = new_run()
    assert run.run({**digits(EXTRA), "parallel": ZERO}) == [DATA_BROKEN], run.output(0)
    assert (
        "error: model: _extra_state, inner._extra_state: ZeRO checkpoints do not support get_extra_state()"
        in run.output(0)
    )


def test_a_buffer_that_ranks_cannot_send_is_refused_by_name() -> None:
    model = torch.nn.Linear(2, 2)
    model.register_buffer("table", torch.arange(4))
    require_broadcastable_buffers(model)
    model.register_buffer("short", torch.arange(4, dtype=torch.int16))
    with pytest.raises(BrokenInput, match="model: short: DDP cannot broadcast"):
        require_broadcastable_buffers(model)
