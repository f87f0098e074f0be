"""Mistakes in a user's own data, model, loss, optimizer or recipe: each ends the run with one message."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import re
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from jobc.runtime.exit_codes import CRASHED, DATA_BROKEN, DONE
from jobc.trainer.build.data_checks import check_enough_samples
from jobc.trainer.config import train_json
from jobc.trainer.data import order
from jobc.trainer.dist.process_group import RankGroup
from jobc.trainer.lifecycle.errors import BrokenInput, TrainerError
from jobc.trainer.lifecycle.exit_rank import known_cause

from ..conftest import Run
from ..in_process import built, train
from ..ways import FSDP
from .own_package import CROSS, EXAMPLE, LATE, NO_VAL, OWN, WAVES

pytestmark = [pytest.mark.xdist_group("bring_your_own"), pytest.mark.usefixtures("in_this_process")]
Tree = Callable[..., dict[str, Any]]
UNFIT = "model: outputs and targets do not match"
ARGUMENTS = "__init__() got an unexpected keyword argument 'depth'"


def test_a_parameter_that_no_loss_depends_on_is_named(
    digits: Tree, new_run: Callable[[], Run], lib: Path, tmp_path: Path, broken: None
) -> None:
    two = {**OWN, **CROSS, "world_size": 2, "batch.micro": 12, "model": {"_target_": "broken.Unused"}, "loop.steps": 3}
    for find_unused, code in ((False, DATA_BROKEN), (True, DONE)):
        started = new_run()
        tree = digits({**two, "parallel.find_unused_parameters": find_unused})
        started.start(tree, ("-m", "jobc_trainer"), PYTHONPATH=f"{lib}:{EXAMPLE}:{tmp_path}")
        assert started.wait() == [code, code], started.output(0)
        told = "model: 2 parameters are not used in the loss of the first batch\n  spare.weight, spare.bias\n"
        assert (told in started.output(0)) != find_unused


def test_a_part_that_a_later_batch_does_not_use_is_one_line_and_its_remedy(
    digits: Tree, new_run: Callable[[], Run], lib: Path, tmp_path: Path, broken: None
) -> None:
    started = new_run()
    later = {"model": {"_target_": "broken.UnusedLater"}, "loop.steps": 9}
    tree = digits({**OWN, **CROSS, "world_size": 2, "batch.micro": 12, **later})
    started.start(tree, ("-m", "jobc_trainer"), PYTHONPATH=f"{lib}:{EXAMPLE}:{tmp_path}")
    assert started.wait() == [DATA_BROKEN] * 2, started.output(0)
    error, hint = started.output(0).splitlines()[-2:]
    assert error == "error: rank 0: unused parameters: part of the model does not affect the loss of a batch"
    assert hint.startswith("  = hint: parallel.find_unused_parameters=true; ")


def test_a_process_that_reads_and_dies_is_one_line(digits: Tree, tmp_path: Path) -> None:
    earlier = set(multiprocessing.active_children())
    loader = built(tmp_path, digits({**OWN, "loader.workers": 1})).loader
    loader.take_step()
    (worker,) = set(multiprocessing.active_children()) - earlier
    assert worker.pid is not None
    os.kill(worker.pid, signal.SIGKILL)
    with pytest.raises((TrainerError, RuntimeError)) as caught:  # torch's own, when it comes between two reads
        for _ in range(20):
            loader.take_step()
    known = known_cause(caught.value)
    assert known is not None
    assert known.code == CRASHED
    assert known.title.startswith(f"rank 0: data loader process {worker.pid} died: killed by ")


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"model": {"_target_": "no_such.Net"}}, "model: no module named no_such, needed for no_such.Net"),
        ({"model": {"_target_": "my_pkg.nets.Nett"}}, "nets.py has no Nett"),
        ({"model": {"_target_": "my_pkg.nets.Net", "depth": 3}}, f"failed: TypeError: Net.{ARGUMENTS}"),
        (
            {"model": {"_target_": "my_pkg.data.Waves", "size": 3}},
            "model: my_pkg.data.Waves must return a torch.nn.Module",
        ),
        (
            {"model": {**OWN["model"], "points": 31}},
            "the forward pass of my_pkg.nets.Net failed on the first batch: RuntimeError",
        ),
        (
            {"model": {**LATE["model"], "out_features": 3, "bias": None}, "loss": {"kind": "cross_entropy"}},
            "model: 3 output classes, but targets are 0 to 3",
        ),
        ({"model": {"_target_": "broken.Shaped", "how": "mapping"}, **CROSS}, f"{UNFIT}: dict for torch.int64"),
        ({"model": {"_target_": "broken.Shaped", "how": "scalar"}, **CROSS}, f"{UNFIT}: torch.float32 [] for"),
        ({"model": {"_target_": "broken.Shaped", "how": "flat"}, **CROSS}, f"{UNFIT}: torch.float32 [24] for"),
        (
            {"data": {"_target_": "broken.Raises", "error": "KeyError", **NO_VAL}},
            "data: the loader returned no batch: KeyError: 'shard_17'",
        ),
        (
            {"data": {**WAVES, "val": None, "collate": "broken.collate"}},
            "data: the loader returned no batch: ValueError: ragged",
        ),
        (
            {"recipe": "broken.OneNumber"},
            "recipe: loss() must return (sum, count), where sum is a tensor",
        ),
        ({"recipe": "broken.NoSource"}, "recipe: build_data() must return a Source, not list"),
        ({"recipe": "broken.NoModel"}, "recipe: build_model() must return a torch.nn.Module, not NoneType"),
        (
            {"recipe": "broken.NoOptimizer"},
            "recipe: build_optimizer() must return a torch.optim.Optimizer, not NoneType",
        ),
        ({"recipe": "broken.WrongOptimizer"}, "recipe: build_optimizer() failed: ValueError: Invalid learning rate"),
        ({"recipe": "broken.OptimizerOfNothing"}, "recipe: the optimizer from build_optimizer() has none of the"),
        (
            {"recipe": "broken.OptimizerWithoutRate"},
            "recipe: the optimizer from build_optimizer() has a parameter group without",
        ),
        (
            {"recipe": "broken.AnotherRate"},
            "recipe: the optimizer from build_optimizer() has the learning rate 0.03, but optim.lr is 0.1",
        ),
        ({"recipe": "broken.Scheduled"}, "optim: the optimizer has a scheduler from torch.optim.lr_scheduler"),
        ({"recipe": "broken.ByHand"}, "optim: something changed a learning rate to 0.0"),
        (
            {"model": {"_target_": "broken.BackwardRaises", "in_features": 32, "out_features": 4}},
            "model: the backward pass failed on the first batch: ValueError: no second derivative",
        ),
        (
            {"model": {"_target_": "broken.WithCache"}, "loop.activation_checkpointing": 1},
            "model: the backward pass failed on the first batch: CheckpointError",
        ),
        (
            {"data": {"_target_": "broken.Streamed", **NO_VAL}},
            "data: broken.Streamed is a streaming (iterable) data set",
        ),
        ({"recipe": "broken.NotMade"}, "recipe: broken.NotMade(config) failed: ValueError: no licence"),
        ({"recipe": "broken.CountInWords"}, "recipe: count() returned the item count 'many', which is not a number"),
        ({"recipe": "broken.LossCountsInWords", **CROSS}, "recipe: loss() returned the item count 'many'"),
        ({"recipe": "broken.NumberAsScore"}, "recipe: score is 5, but must be one word"),
        (
            {"recipe": "broken.TwoMeasured"},
            "recipe: measure() must return (loss, score, count), each summed over the batch",
        ),
        (
            {"recipe": "broken.MeasureRaises"},
            "validation: measure() failed on the first held-out batch: KeyError: 'caption'",
        ),
        ({"recipe": "broken.NoFlops"}, "recipe: flops_per_sample() returned 0, not a number above 0"),
        ({"recipe": "broken.EndlessFlops"}, "recipe: flops_per_sample() returned inf, not a number above 0"),
        ({"recipe": "broken.HugeFlops"}, f"recipe: flops_per_sample() returned 1{'0' * 59}, not a number above 0"),
        ({"recipe": "broken.WordOfFlops"}, "recipe: flops_per_sample() returned 'many', not a number above 0"),
        ({"recipe": "broken.FlopsRaise"}, "recipe: flops_per_sample() failed: AttributeError"),
        ({"loss": {"_target_": "broken.NUMBER"}}, "loss: broken.NUMBER is neither a class nor a function, but 7"),
        ({"recipe": "broken.NoCount"}, "recipe: count() of the first batch failed: AttributeError"),
        (
            {"model": {"_target_": "torch.nn.Flatten"}},
            "model: torch.nn.Flatten has no trainable parameters",
        ),
        ({"loss": {"_target_": "torch.nn.CrossEntropyLoss"}}, "loss: torch.nn.CrossEntropyLoss returned a tensor []"),
        ({"loss": {"_target_": "broken.flat"}}, "loss: broken.flat returned a tensor [48] for a batch of 24"),
        (
            {
                "model": {"_target_": "broken.Column"},
                "data": {"_target_": "broken.OfNumbers", **NO_VAL},
                "loss": {"_target_": "torch.nn.MSELoss", "reduction": "none"},
            },
            "loss: torch.nn.MSELoss returned [24, 24] for targets [24]",
        ),
        ({"data": {**OWN["data"], "size": 0}}, "data: 0 samples for 1 ranks"),
        (
            {"optim": {**{k: v for k, v in OWN["optim"].items() if k != "momentum"}, "_target_": "torch.optim.LBFGS"}},
            "optim: step() of LBFGS needs a closure, which the trainer does not pass",
        ),
        (
            {"model": {"_target_": "broken.Scaled"}, "parallel": FSDP},
            "model: FSDP cannot shard a scalar parameter: scale",
        ),
        ({"data": {"_target_": "my_pkg.nets.Net", "width": 3}}, "my_pkg.nets.Net has no __len__ and no __getitem__"),
        ({"optim": {**OWN["optim"], "_target_": "torch.optim.SGDM"}}, "has no SGDM"),
        ({"recipe": "my_pkg.nets.Net"}, "recipe: my_pkg.nets.Net is not a subclass of Recipe"),
    ],
)
@pytest.mark.filterwarnings("ignore:Using a target size")
def test_what_is_broken_is_one_line_and_no_traceback(
    changes: dict[str, Any], told: str, digits: Tree, tmp_path: Path, broken: None
) -> None:
    with pytest.raises(BrokenInput, match=re.escape(told)) as caught:
        train(tmp_path, digits({**OWN, **changes}))
    assert caught.value.code == DATA_BROKEN
    assert "\n" not in caught.value.title


def test_parameters_that_no_optimizer_has_are_told(
    digits: Tree, tmp_path: Path, broken: None, capsys: pytest.CaptureFixture[str]
) -> None:
    train(tmp_path, digits({**OWN, "recipe": "broken.OptimizerOfOne", "loop.steps": 2}))
    assert re.search(
        r"warning: \d of \d parameters are not in the optimizer and will not be trained\n  \w",
        capsys.readouterr().out,
    )


def test_an_error_of_a_sample_says_of_which_one_it_is(digits: Tree, tmp_path: Path) -> None:
    Waves = importlib.import_module("my_pkg.data").Waves
    whole = Waves.__getitem__

    def rotten(self: Any, index: int) -> Any:
        if index == 431:
            raise ValueError("rotten")
        return whole(self, index)

    with pytest.MonkeyPatch.context() as patch, pytest.raises(ValueError, match="rotten") as caught:
        patch.setattr(Waves, "__getitem__", rotten)
        train(tmp_path, digits({**OWN, "loop.steps": 60}))
    has_notes = sys.version_info >= (3, 11)
    assert vars(caught.value).get("__notes__", []) == ["in sample 431 of the data set, epoch 0"] * has_notes


def test_a_first_batch_without_a_connection_may_be_tried_again(digits: Tree, tmp_path: Path, broken: None) -> None:
    with pytest.raises(ConnectionResetError):
        train(
            tmp_path, digits({**OWN, "data": {"_target_": "broken.Raises", "error": "ConnectionResetError", **NO_VAL}})
        )


def test_fewer_samples_than_ranks_are_refused() -> None:
    with pytest.raises(BrokenInput, match="data: 5 samples for 8 ranks"):
        check_enough_samples(order.SampleOrder(0, 5, 8, False), RankGroup(3, 8, torch.device("cpu")))
    title = r"data: 1 sample for 2 ranks\n.*; 3 more are held out"
    with pytest.raises(BrokenInput, match=title) as caught:
        check_enough_samples(order.SampleOrder(0, 1, 8, False), RankGroup(0, 2, torch.device("cpu")), num_held_out=3)
    assert caught.value.code == DATA_BROKEN


@pytest.mark.parametrize(
    ("section", "problem"),
    [
        ({"_target_": "Net"}, "expected a dotted name such as my_pkg.Net"),
        ({"_target_": "my_pkg.Net", "kind": "gpt"}, "has both kind and _target_"),
        ({"_target_": "my_pkg.Net", "_partial_": True}, "must not start with _"),
        ({"_target_": "my_pkg.Net", "parts": [{"_target_": None}]}, "model.parts[0]._target_: expected a dotted name"),
    ],
)
def test_train_json_refuses_what_is_no_target(section: dict[str, Any], problem: str, digits: Tree) -> None:
    with pytest.raises(BrokenInput) as caught:
        train_json.parse_train_config(digits({**OWN, "model": section}))
    assert problem in "\n".join(caught.value.details)
