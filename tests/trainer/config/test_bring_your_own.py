"""The package in examples/bring_your_own: the same guarantees for a user's own data, model, loss and optimizer."""

from __future__ import annotations

import importlib
import json
import multiprocessing
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch

from jobc.runtime.exit_codes import CRASHED, DATA_BROKEN, DONE, PREEMPTED
from jobc.tests.packed import write_program
from jobc.trainer import export
from jobc.trainer.build.data_checks import check_enough_samples
from jobc.trainer.checkpoint.store import checkpoints_newest_first
from jobc.trainer.config import train_json
from jobc.trainer.data import order
from jobc.trainer.dist.process_group import RankGroup
from jobc.trainer.lifecycle.errors import BrokenInput, TrainerError
from jobc.trainer.lifecycle.exit_rank import known_cause
from jobc.trainer.loop.metrics import last_step_lines, read_metrics

from ..conftest import Run
from ..in_process import built, train
from ..ways import FSDP

pytestmark = pytest.mark.xdist_group("bring_your_own")

Tree = Callable[..., dict[str, Any]]
ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "bring_your_own"
WAVES = {"_target_": "my_pkg.data.Waves", "size": 500}
OWN: dict[str, Any] = {
    "model": {"_target_": "my_pkg.nets.Net", "width": 32},
    "data": {**WAVES, "val": {"_target_": "my_pkg.data.Waves", "size": 101, "first": 500}, "collate": None},
    "loss": {"_target_": "my_pkg.losses.smoothed", "smoothing": 0.1},
    "optim": {
        "_target_": "torch.optim.SGD", "lr": 0.1, "momentum": 0.9,
        "warmup_steps": 2, "schedule": "constant", "min_lr_ratio": 0.1, "clip_norm": 1.0,
    },
    "batch.micro": 24,
    "batch.accumulation": 2,
    "loop.steps": 25,
    "checkpoint.every_steps": 7,
}  # fmt: skip
# How many items count is known only after the forward pass. Without BatchNorm, whose means are of a micro batch.
LATE: dict[str, Any] = {
    **OWN,
    "model": {"_target_": "torch.nn.Linear", "in_features": 32, "out_features": 4},
    "loss": {"_target_": "my_pkg.losses.of_hard_ones", "least": 0.5},
    "batch.micro": 48,
    "batch.accumulation": 1,
}
NO_VAL = {"val": None, "collate": None}
CROSS = {"loss": {"kind": "cross_entropy"}}
UNFIT = "model: outputs and targets do not match"
BROKEN = """
import builtins
import torch
from jobc_trainer.recipe import Recipe

class Shaped(torch.nn.Linear):
    def __init__(self, how):
        super().__init__(32, 4)
        self.how = how

    def forward(self, x):
        y = super().forward(x)
        return {"mapping": {"logits": y}, "scalar": y.sum(), "flat": y[:, 0]}[self.how]

class Scaled(torch.nn.Linear):
    def __init__(self):
        super().__init__(32, 4)
        self.scale = torch.nn.Parameter(torch.tensor(1.0))

class Raises:
    def __init__(self, error):
        self.error = getattr(builtins, error)

    def __len__(self):
        return 100

    def __getitem__(self, index):
        raise self.error("shard_17")

def collate(samples):
    raise ValueError("ragged")

class NoSource(Recipe):
    def build_data(self):
        return [1, 2, 3]

class NoModel(Recipe):
    def build_model(self, source):
        pass

class NoOptimizer(Recipe):
    def build_optimizer(self, model):
        pass

class WrongOptimizer(Recipe):
    def build_optimizer(self, model):
        return torch.optim.SGD(model.parameters(), lr=-1)

class OptimizerOfNothing(Recipe):
    def build_optimizer(self, model):
        return torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)

class OptimizerWithoutRate(Recipe):
    def build_optimizer(self, model):
        made = torch.optim.SGD(model.parameters(), lr=0.1)
        made.param_groups[0]["lr"] = None  # as one has that finds its own
        return made

class AnotherRate(Recipe):
    def build_optimizer(self, model):
        return torch.optim.SGD(model.parameters(), lr=0.03)

class Scheduled(Recipe):
    def build_optimizer(self, model):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        self.scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 30)
        return optimizer

class ByHand(Recipe):
    def build_optimizer(self, model):
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        return self.optimizer

    def loss(self, model, batch):
        self.optimizer.param_groups[0]["lr"] *= 0.5
        return super().loss(model, batch)

class Once(torch.autograd.Function):
    @staticmethod
    def forward(context, tensor):
        return tensor.clone()

    @staticmethod
    def backward(context, gradient):
        raise ValueError("no second derivative")

class BackwardRaises(torch.nn.Linear):
    def forward(self, points):
        return Once.apply(super().forward(points))

class Cached(torch.nn.Linear):
    '''A block that remembers its inputs, as one with a cache of keys and values does.'''

    def forward(self, points):
        self.cache = torch.cat([self.cache, points]) if hasattr(self, "cache") else points
        return super().forward(self.cache).relu()[-len(points):]

class WithCache(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = torch.nn.ModuleList([Cached(32, 4)])

    def forward(self, points):
        return self.blocks[0](points)

class Streamed(torch.utils.data.IterableDataset):
    def __iter__(self):
        return iter([])

class OptimizerOfOne(Recipe):
    def build_optimizer(self, model):
        return torch.optim.SGD(list(model.parameters())[:1], lr=0.1)

class NotMade(Recipe):
    def __init__(self, config):
        raise ValueError("no licence")

class CountInWords(Recipe):
    def count(self, batch):
        return "many"

class LossCountsInWords(Recipe):
    def count(self, batch):
        return None

    def loss(self, model, batch):
        return super().loss(model, batch)[0], "many"

class NumberAsScore(Recipe):
    score = 5

class TwoMeasured(Recipe):
    def measure(self, model, batch):
        return super().measure(model, batch)[:2]

class MeasureRaises(Recipe):
    def measure(self, model, batch):
        raise KeyError("caption")

class NoFlops(Recipe):
    def flops_per_sample(self, num_parameters):
        return 0

class EndlessFlops(Recipe):
    def flops_per_sample(self, num_parameters):
        return 1e300 * 1e300

class HugeFlops(Recipe):
    def flops_per_sample(self, num_parameters):
        return 10 ** 400

class WordOfFlops(Recipe):
    def flops_per_sample(self, num_parameters):
        return "many"

class FlopsRaise(Recipe):
    def flops_per_sample(self, num_parameters):
        return 6 * num_parameters * self.context

NUMBER = 7

class UnusedLater(torch.nn.Linear):
    def __init__(self):
        super().__init__(32, 4)
        self.spare, self.calls = torch.nn.Linear(32, 4), 0

    def forward(self, x):
        self.calls += 1
        return super().forward(x) + (self.spare(x) if self.calls < 3 else 0)

class OneNumber(Recipe):
    def loss(self, model, batch):
        loss, count = super().loss(model, batch)
        return loss.reshape(1), count


def flat(logits, targets):
    return torch.nn.functional.cross_entropy(logits, targets, reduction="none").repeat(2)

class NoCount(Recipe):
    def count(self, batch):
        return len(batch.items_of)

class TwoRates(Recipe):
    def build_optimizer(self, model):
        first, *others = model.parameters()
        return torch.optim.SGD([{"params": [first], "lr": 0.1}, {"params": others, "lr": 0.01}])

class Unused(torch.nn.Linear):
    def __init__(self):
        super().__init__(32, 4)
        self.spare = torch.nn.Linear(3, 2)

class Column(torch.nn.Linear):
    def __init__(self):
        super().__init__(32, 1)

    def forward(self, x):
        return super().forward(x) + 0.0

class OfNumbers:
    def __len__(self):
        return 100

    def __getitem__(self, index):
        return torch.ones(32), torch.tensor(float(index))
"""
DENOISE = {"recipe": "my_pkg.recipes.Denoise", "loop.steps": 12, "batch.micro": 48}
ARGUMENTS = "__init__() got an unexpected keyword argument 'depth'"


@pytest.fixture(autouse=True)
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The example on the import path, the trainer under the name that it has in a job; torch's settings as before."""
    monkeypatch.syspath_prepend(str(EXAMPLE))
    monkeypatch.setitem(sys.modules, "jobc_trainer", sys.modules["jobc.trainer"])
    monkeypatch.setitem(sys.modules, "jobc_trainer.recipe", sys.modules["jobc.trainer.recipe"])
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(False)


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module of the user's that is."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "broken", raising=False)
    (tmp_path / "broken.py").write_text(BROKEN)


@pytest.fixture(scope="module")
def lib(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The packed program of an artifact."""
    return write_program(tmp_path_factory.mktemp("lib"))


def start(run: Run, tree: dict[str, Any], lib: Path, program: tuple[str, ...] = ("-m", "jobc_trainer")) -> None:
    run.start(tree, program, PYTHONPATH=f"{lib}:{EXAMPLE}")


def losses(folder: Path) -> list[float]:
    lines = last_step_lines(folder / "metrics" / "rank_00.jsonl")
    return [float.fromhex(str(line["loss_hex"])) for _, line in sorted(lines.items())]


def validation(folder: Path) -> dict[str, Any]:
    return [line for line in read_metrics(folder / "metrics" / "rank_00.jsonl") if "val_loss" in line][-1]


@pytest.fixture(scope="module")
def whole(digits: Tree, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train one uninterrupted rank that reads its data itself."""
    folder = tmp_path_factory.mktemp("whole")
    sys.path.insert(0, str(EXAMPLE))
    assert train(folder, digits(OWN)) == DONE
    sys.path.remove(str(EXAMPLE))
    return folder


def test_killed_with_workers_and_resumed_without_is_bit_identical(
    whole: Path, digits: Tree, new_run: Callable[[], Run], lib: Path
) -> None:
    run = new_run()
    start(run, digits({**OWN, "loader.workers": 2}), lib)
    run.wait_for_step(17)  # in the second epoch, some steps behind the checkpoint of step 14
    run.ranks[0].kill()
    assert run.wait() == [-signal.SIGKILL]
    for received in ("SIGTERM", None):  # stopped once more, after one step
        assert train(run.folder, digits(OWN), received) == (PREEMPTED if received else DONE)
    assert losses(run.folder) == losses(whole)
    assert (run.folder / "final/weights.pt").read_bytes() == (whole / "final/weights.pt").read_bytes()


def test_the_proof_survives_a_resume(digits: Tree, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tree = digits({**OWN, "loop.steps": 13})
    for _ in range(3):
        train(tmp_path, tree, received="SIGTERM")
    saved = json.loads((checkpoints_newest_first(tmp_path / "checkpoints")[0] / "state.json").read_text())["parts"][
        "data"
    ]
    assert (saved["num_fed"], saved["first_step"]) == (144, 0)
    train(tmp_path, tree)
    told = [line for line in capsys.readouterr().out.splitlines() if line.startswith("data: ")]
    assert told == [
        "data: 500 samples, 1 rank, overlap 0, missing 0, padded 28 (weight 0), epoch 0",
        "data: 96 samples, 1 rank, overlap 0, missing 0, padded 0 (weight 0), epoch 1, steps 12 to 13",
    ]


def test_ranks_accumulation_and_workers_change_nothing_but_rounding(
    digits: Tree, new_run: Callable[[], Run], lib: Path, tmp_path: Path
) -> None:
    train(tmp_path / "one", digits(LATE))
    train(tmp_path / "accumulated", digits({**LATE, "batch.micro": 16, "batch.accumulation": 3}))
    two = new_run()
    train(two.folder, digits({**LATE, "loop.steps": 4}))
    start(two, digits({**LATE, "world_size": 2, "batch.micro": 24, "loader.workers": 1}), lib)
    assert two.wait() == [DONE, DONE], two.output(0)

    assert losses(tmp_path / "accumulated") == pytest.approx(losses(tmp_path / "one"), rel=1e-5)
    assert losses(two.folder) == pytest.approx(losses(tmp_path / "one"), rel=1e-5)
    assert validation(two.folder)["val_samples"] == 101  # not a multiple of 24, nor of 2
    assert validation(two.folder)["val_loss"] == pytest.approx(validation(tmp_path / "one")["val_loss"], rel=1e-5)
    told = [line for line in two.output(0).splitlines() if line.startswith("data: ")]
    assert told[0] == "data: 500 samples, 2 ranks, overlap 0, missing 0, padded 28 (weight 0), epoch 0"  # with rank 0's


def test_a_sampler_that_knows_of_no_ranks_ends_the_run(digits: Tree, new_run: Callable[[], Run], lib: Path) -> None:
    code = (
        "import sys\n"
        "from jobc_trainer.data import order\n"
        "shard = order.rank_shard\n"
        "order.rank_shard = lambda indices_G, real, rank, world_size: shard(indices_G, real, 0, world_size)\n"
        "from jobc_trainer.__main__ import main\n"
        "sys.exit(main())\n"
    )
    run = new_run()
    start(run, digits({**OWN, "world_size": 2, "batch.micro": 12}), lib, ("-c", code))
    assert run.wait() == [DATA_BROKEN] * 2
    assert "error: data: all 2 ranks got the same samples" in run.output(1)


COUNTED = """
from my_pkg.data import Waves

class Counted(Waves):
    count = -1

    def __getitem__(self, index):
        self.count += 1
        return super().__getitem__(self.count % len(self))
"""


def test_a_short_training_on_the_same_samples_warns(
    digits: Tree, new_run: Callable[[], Run], lib: Path, tmp_path: Path
) -> None:
    (tmp_path / "counted.py").write_text(COUNTED)
    run = new_run()
    data = {"_target_": "counted.Counted", "size": 500, "noise": 0.0, **NO_VAL}
    tree = digits({**OWN, "data": data, "world_size": 2, "batch.micro": 12, "batch.accumulation": 1, "loop.steps": 4})
    run.start(tree, ("-m", "jobc_trainer"), PYTHONPATH=f"{lib}:{EXAMPLE}:{tmp_path}")
    assert run.wait() == [DONE] * 2, run.output(0)
    assert "all 2 ranks seem to get the same samples in 4 batches" in run.output(0)


def test_a_share_that_loses_samples_is_found(digits: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(indices_G: torch.Tensor, num_real: int, rank: int, world_size: int) -> tuple[torch.Tensor, int]:
        """The first sample of each batch never, the one behind it twice."""
        return torch.cat([indices_G[1:2], indices_G[1:]]), num_real

    monkeypatch.setattr(order, "rank_shard", broken)
    with pytest.raises(BrokenInput, match="not trained on exactly once") as caught:
        train(tmp_path, digits(OWN))
    assert "overlap 11, missing 11, padded 28" in caught.value.details[0]
    assert caught.value.code == DATA_BROKEN


def test_a_recipe_trains_measures_and_resumes(digits: Tree, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train(tmp_path / "whole", digits(DENOISE))
    assert "error_of_the_mean" in capsys.readouterr().out
    train(tmp_path / "parts", digits(DENOISE), received="SIGTERM")
    train(tmp_path / "parts", digits({**DENOISE, "loader.workers": 1}))
    assert losses(tmp_path / "parts") == losses(tmp_path / "whole")
    assert losses(tmp_path / "whole")[-1] < losses(tmp_path / "whole")[0]
    assert validation(tmp_path / "whole")["val_error_of_the_mean"] != 0
    with pytest.raises(BrokenInput, match=r"a recipe built the model.*\n.*build_model\(\) in my_pkg.recipes.Denoise"):
        export.load(tmp_path / "whole" / "final")


def test_groups_keep_the_proportion_of_their_rates(digits: Tree, tmp_path: Path, broken: None) -> None:
    tree = digits({**OWN, "recipe": "broken.TwoRates", "loop.steps": 4, "checkpoint.every_steps": 2})
    for received in ("SIGTERM", None):
        train(tmp_path, tree, received=received)
    newest = checkpoints_newest_first(tmp_path / "checkpoints")[0]
    groups = torch.load(newest / "optimizer.pt", weights_only=True)["param_groups"]
    assert [group["lr"] for group in groups] == pytest.approx([0.1, 0.01])  # optim.lr and a tenth of it


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


def test_data_that_have_changed_end_a_resume(digits: Tree, tmp_path: Path) -> None:
    tree = digits({**OWN, "loop.steps": 13})
    train(tmp_path, tree, received="SIGTERM")
    Waves = sys.modules["my_pkg.data"].Waves
    whole = Waves.__len__
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Waves, "__len__", lambda self: whole(self) + (self.first == 0))
        with pytest.raises(
            BrokenInput, match="data: the data set differs from the one that this run started with"
        ) as caught:
            train(tmp_path, tree)
    assert "500 + 101 held-out samples" in caught.value.details[0] and "step_0000000" in caught.value.details[0]
    assert "501 + 101 held-out samples" in caught.value.details[1] and caught.value.code == DATA_BROKEN
    train(tmp_path, tree)  # they are back


MIXUP = """
import random
import numpy
from my_pkg.recipes import Denoise

class Mixed(Denoise):
    def loss(self, model, batch):
        waves_BP, *rest = batch
        share = numpy.random.beta(0.4, 0.4) + 0.1 * numpy.random.standard_normal() + 0.1 * random.gauss()
        return super().loss(model, (share * waves_BP + (1 - share) * waves_BP.flip(0), *rest))
"""


def test_a_loss_that_draws_from_numpy_resumes_to_the_bit(
    digits: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "mixup.py").write_text(MIXUP)
    tree = digits({**DENOISE, "recipe": "mixup.Mixed", "loop.steps": 8})
    train(tmp_path / "whole", tree)
    for received in ("SIGTERM", "SIGTERM", None):  # stopped after one step each, with a number by two left
        numpy.random.seed(1)  # as another process, whatever this one has drawn
        train(tmp_path / "parts", tree, received)
    assert losses(tmp_path / "parts") == losses(tmp_path / "whole")


def test_the_result_is_a_module_again(whole: Path) -> None:
    net = export.load(whole / "final", trusted=True)
    assert type(net).__name__ == "Net"
    assert not net.training


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
