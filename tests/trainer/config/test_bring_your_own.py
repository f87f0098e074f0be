"""The package in examples/bring_your_own: the same guarantees for a user's own data, model, loss and optimizer."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch

from jobc.runtime.exit_codes import DATA_BROKEN, DONE, PREEMPTED
from jobc.trainer import export
from jobc.trainer.checkpoint.store import checkpoints_newest_first
from jobc.trainer.data import order
from jobc.trainer.lifecycle.errors import BrokenInput
from jobc.trainer.loop.metrics import last_step_lines, read_metrics

from ..conftest import Run
from ..in_process import train
from .own_package import DENOISE, EXAMPLE, LATE, NO_VAL, OWN

pytestmark = [pytest.mark.xdist_group("bring_your_own"), pytest.mark.usefixtures("in_this_process")]
Tree = Callable[..., dict[str, Any]]


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
