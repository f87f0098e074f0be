"""A loss that is not finite though its gradient is: no rank's weights move, and the rank is named."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from jobc.runtime.exit_codes import DONE
from jobc.trainer.build.build import build
from jobc.trainer.config.train_json import parse_train_config
from jobc.trainer.dist.env import parse_environment
from jobc.trainer.dist.process_group import RankGroup, join_process_group
from jobc.trainer.lifecycle.errors import LossDiverged
from jobc.trainer.loop.loop import train_step
from jobc.trainer.loop.step_sums import StopAndSaveRequests

from ..conftest import Run

pytestmark = pytest.mark.usefixtures("settings_of_torch")

Tree = Callable[..., dict[str, Any]]
LAST_RANK = """
import os
from torch.nn import functional as F

calls = 0

def infinite_in_value(outputs, targets):
    '''On the last rank, in the second step: a pass and a measure come first. As of a target masked by -inf.'''
    global calls
    calls += 1
    last = os.environ.get("RANK", "0") == str(int(os.environ.get("WORLD_SIZE", "1")) - 1)
    losses = F.cross_entropy(outputs, targets, reduction="none")
    return losses + (float("inf") if last and calls == 4 else 0.0)
"""


def two_steps(group: RankGroup, tree: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return what the second step reports, and whether it changes the weights."""
    sys.modules.pop("bad_loss", None)
    training = build(parse_train_config(tree), parse_environment({"JOBC_RUN_DIR": str(folder)}), group)
    nothing = StopAndSaveRequests()
    assert train_step(training, 0, nothing).skip_reason == ""
    before = {name: value.clone() for name, value in training.parallel.weights().items()}
    try:
        told = train_step(training, 1, nothing).skip_reason
    except LossDiverged as error:
        told = f"{error.title}: {', '.join(error.details)}"
    moved = [name for name, value in training.parallel.weights().items() if not torch.equal(value, before[name])]
    good = train_step(training, 2, nothing)
    return {"told": told, "moved": moved, "third": good.loss, "norm": good.update.grad_norm}


class Frozen(torch.nn.Sequential):
    """BatchNorm, whose means a forward pass moves, and one that is frozen by eval()."""

    def __init__(self) -> None:
        super().__init__(torch.nn.BatchNorm1d(64), torch.nn.BatchNorm1d(64), torch.nn.Linear(64, 10))
        self[1].eval()


def test_a_step_that_is_left_out_leaves_no_trace_in_buffers(
    digits: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bad_loss.py").write_text(LAST_RANK)
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("bad_loss", None)
    group = RankGroup(0, 1, torch.device("cpu"))
    model = {"model": {"_target_": f"{__name__}.Frozen"}}
    training = build(
        parse_train_config(digits({**changes("skip", 1), **model})),
        parse_environment({"JOBC_RUN_DIR": str(tmp_path)}),
        group,
    )
    nothing = StopAndSaveRequests()
    train_step(training, 0, nothing)
    before = {name: value.clone() for name, value in training.parallel.weights().items()}
    assert float(before["0.running_mean"].abs().max()) > 0 == float(before["1.running_mean"].abs().max())
    assert train_step(training, 1, nothing).skip_reason
    assert all(torch.equal(value, before[name]) for name, value in training.parallel.weights().items())


def check(found: dict[str, Any], on_nan: str, rank: int) -> None:
    told = f"the loss of rank {rank} is inf"
    title = "NaN or Inf in the loss or its gradient at step 2"
    assert found["told"] == (told if on_nan == "skip" else f"{title}: {told}")
    assert found["moved"] == []
    assert 0 < found["third"] < 10
    assert 0 < found["norm"] < 100


def changes(on_nan: str, world_size: int) -> dict[str, Any]:
    loss = {"_target_": "bad_loss.infinite_in_value"}
    return {"loss": loss, "loop.on_nan": on_nan, "world_size": world_size, "batch.micro": 48}


@pytest.mark.parametrize("on_nan", ["skip", "stop"])
def test_an_infinite_loss_moves_no_weight(
    on_nan: str, digits: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bad_loss.py").write_text(LAST_RANK)
    monkeypatch.syspath_prepend(str(tmp_path))
    check(two_steps(RankGroup(0, 1, torch.device("cpu")), digits(changes(on_nan, 1)), tmp_path), on_nan, 0)


def test_an_infinite_loss_of_one_rank_moves_no_weight_of_any(
    digits: Tree, new_run: Callable[[], Run], tmp_path: Path
) -> None:
    (tmp_path / "bad_loss.py").write_text(LAST_RANK)
    run = new_run()
    tree = digits(changes("skip", 2))
    run.start(tree, ["-m", "jobc.tests.trainer.loop.test_on_nan"], PYTHONPATH=f"{tmp_path}:{':'.join(sys.path)}")
    assert run.wait() == [DONE] * 2, run.output(0)
    for rank in range(2):
        for on_nan, found in json.loads(run.output(rank).splitlines()[-1]).items():
            check(found, on_nan, 1)


def main() -> None:
    """Run one of the ranks with both policies, one after the other."""
    import os

    env = parse_environment(os.environ)
    assert env.train_json is not None
    tree = json.loads(env.train_json.read_text())
    with join_process_group(env, 60) as group:
        found = {}
        for on_nan in ("skip", "stop"):
            tree["loop"]["on_nan"] = on_nan
            found[on_nan] = two_steps(group, tree, env.train_json.parent)
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
