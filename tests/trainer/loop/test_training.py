"""Training in this process, with world size 1: loss, checkpoints, stopping, failing."""

from __future__ import annotations

import json
import resource
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from jobc.runtime import exit_codes
from jobc.trainer.checkpoint import store
from jobc.trainer.config import train_json
from jobc.trainer.dist import env as environment
from jobc.trainer.dist.process_group import choose_device
from jobc.trainer.export import load
from jobc.trainer.lifecycle.errors import BrokenInput, LossDiverged, TrainerError
from jobc.trainer.loop.loop import run_training
from jobc.trainer.loop.metrics import RankMetricsFile, last_step_lines, read_metrics
from jobc.trainer.recipe.optimizer import learning_rate_at_step

from ..in_process import Signals, built, train, weights

pytestmark = [pytest.mark.xdist_group("training"), pytest.mark.usefixtures("settings_of_torch")]
Tree = Callable[..., dict[str, Any]]


def losses(folder: Path) -> list[str]:
    return [str(line["loss_hex"]) for line in last_step_lines(folder / "metrics" / "rank_00.jsonl").values()]


def validations(folder: Path) -> list[dict[str, Any]]:
    return [line for line in read_metrics(folder / "metrics" / "rank_00.jsonl") if "val_loss" in line]


@pytest.fixture(scope="module")
def whole(digits: Tree, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An uninterrupted run over 20 steps: one epoch of 15, and 5 more."""
    folder = tmp_path_factory.mktemp("whole")
    assert train(folder, digits()) == exit_codes.DONE
    return folder


def test_the_same_seed_gives_the_same_bits(whole: Path, digits: Tree, tmp_path: Path) -> None:
    train(tmp_path, digits())
    assert losses(tmp_path) == losses(whole)
    assert weights(tmp_path) == weights(whole)


def test_another_seed_gives_another_run(whole: Path, digits: Tree, tmp_path: Path) -> None:
    train(tmp_path, digits({"seed": 1}))
    assert losses(tmp_path)[0] != losses(whole)[0]


@pytest.mark.parametrize(("micro", "accumulation"), [(48, 2), (24, 4), (32, 3)])
def test_accumulation_changes_nothing_but_rounding(
    whole: Path, digits: Tree, tmp_path: Path, micro: int, accumulation: int
) -> None:
    # the last batch of the epoch has 94 of 96 samples, all the padding in one micro batch
    train(tmp_path, digits({"batch.micro": micro, "batch.accumulation": accumulation}))
    got, expected = ([float.fromhex(one) for one in losses(folder)] for folder in (tmp_path, whole))
    assert got == pytest.approx(expected, rel=1e-4)


def test_a_stopped_run_continues_as_if_nothing_had_happened(
    whole: Path, digits: Tree, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for step in range(1, 20, 6):  # each attempt does one step more, then saves and stops
        assert train(tmp_path, digits(), received="SIGTERM", JOBC_ATTEMPT=str(step)) == exit_codes.PREEMPTED
    assert capsys.readouterr().out.splitlines()[-1] == "stopped by SIGTERM after step 4/20, resumable"
    assert len(losses(tmp_path)) == 4
    assert train(tmp_path, digits(), JOBC_ATTEMPT="20") == exit_codes.DONE
    assert losses(tmp_path) == losses(whole)
    assert weights(tmp_path) == weights(whole)


def test_a_damaged_checkpoint_is_named_and_the_one_before_it_continues(
    whole: Path, digits: Tree, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train(tmp_path, digits({"loop.steps": 14, "checkpoint.every_steps": 7}))
    (tmp_path / "checkpoints" / "step_00000014" / "optimizer.pt").write_bytes(b"")
    train(tmp_path, digits())
    assert "resumed from checkpoints/step_00000007, skipped step_00000014: optimizer.pt" in capsys.readouterr().out
    assert weights(tmp_path) == weights(whole)


def test_no_sound_checkpoint_is_refused_rather_than_started_over(digits: Tree, tmp_path: Path) -> None:
    train(tmp_path, digits({"loop.steps": 1}))
    (tmp_path / "checkpoints" / "step_00000001" / "weights.pt").unlink()
    with pytest.raises(BrokenInput, match="remove that folder to start from step 0"):
        train(tmp_path, digits())


def test_another_training_is_refused_by_name(digits: Tree, tmp_path: Path) -> None:
    train(tmp_path, digits({"loop.steps": 1}))
    with pytest.raises(BrokenInput) as caught:
        train(tmp_path, digits({"optim.lr": 0.5, "model.hidden": 8}))
    assert [line.split(":")[0] for line in caught.value.details] == ["model.hidden", "optim.lr"]
    assert caught.value.hint == "start a new run"  # these weights do not fit
    with pytest.raises(BrokenInput, match="start a new run; --fork starts it from these weights"):
        train(tmp_path, digits({"optim.lr": 0.5}))


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ({"other": torch.zeros(2)}, "checkpoints/step_00000002 was saved from a different model"),
        ({"weights": Signals}, "weights.pt contains more than tensors, so it is not loaded"),
    ],
)
def test_a_checkpoint_with_something_else_in_it_is_refused_in_words(
    digits: Tree, tmp_path: Path, content: dict[str, Any], told: str
) -> None:
    train(tmp_path, digits({"loop.steps": 1}))
    root = tmp_path / "checkpoints"
    files = {path.name: path.read_bytes() for path in (root / "step_00000001").iterdir() if path.name != store.MANIFEST}
    store.save_checkpoint(root, 2, {**files, "weights.pt": lambda file: torch.save(content, file)}, keep=2)
    with pytest.raises(BrokenInput, match=told):
        train(tmp_path, digits())


def test_a_checkpoint_of_a_script_is_refused_in_words(digits: Tree, tmp_path: Path) -> None:
    state = b'{"step": 30, "world_size": 1, "torch": "2.13.0"}'  # as of Runtime.save
    saved = store.save_checkpoint(
        tmp_path / "checkpoints", 30, {"state.pt": b"", "rng.pt": b"", "state.json": state}, keep=2
    )
    words = "step_00000030 was saved by a script, not by the trainer"
    with pytest.raises(BrokenInput, match=words):
        train(tmp_path, digits())
    with pytest.raises(BrokenInput, match=words):
        train(tmp_path / "fork", digits(), JOBC_INIT_FROM=str(tmp_path))
    assert saved.is_dir()


def test_a_checkpoint_of_a_later_format_is_refused_and_stays(
    digits: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train(tmp_path, digits({"loop.steps": 1}))
    with monkeypatch.context() as later:
        later.setattr(store, "FORMAT", 2)
        train(tmp_path, digits({"loop.steps": 2}))
    with pytest.raises(BrokenInput, match="was saved by a newer version of the trainer") as refused:
        train(tmp_path, digits())
    assert refused.value.details == ("step_00000002 has format 2, but this trainer reads format 1",)
    assert [store.step_of_folder(path) for path in store.checkpoints_newest_first(tmp_path / "checkpoints")] == [2, 1]


def test_a_fork_takes_the_weights_and_starts_at_step_0(whole: Path, digits: Tree, tmp_path: Path) -> None:
    train(tmp_path, digits({"optim.lr": 1e-9}), JOBC_INIT_FROM=str(whole))
    assert len(losses(tmp_path)) == 20
    assert validations(tmp_path)[0]["val_loss"] == pytest.approx(validations(whole)[-1]["val_loss"], rel=1e-3)


def test_a_fork_from_nothing_or_from_another_model_is_refused(whole: Path, digits: Tree, tmp_path: Path) -> None:
    with pytest.raises(BrokenInput, match="no node has a checkpoint"):
        train(tmp_path, digits(), JOBC_INIT_FROM=str(tmp_path))
    with pytest.raises(BrokenInput, match="was saved from a different model"):
        train(tmp_path, digits({"model.hidden": 8}), JOBC_INIT_FROM=str(whole))


@contextmanager
def largest_file(size_bytes: int) -> Iterator[None]:
    """No file can grow beyond this: what a full disk does to a write, without being root."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("background", [True, False])
def test_a_full_disk_costs_the_checkpoint_and_a_few_in_a_row_end_the_run(
    digits: Tree, tmp_path: Path, capsys: pytest.CaptureFixture[str], background: bool
) -> None:
    every = {"checkpoint.every_steps": 3, "checkpoint.max_failures": 2, "checkpoint.background": background}
    train(tmp_path, digits({"loop.steps": 3, **every}))
    with largest_file(9000), pytest.raises(TrainerError) as given_up:  # metrics fit, a checkpoint does not
        train(tmp_path, digits({"loop.steps": 99, **every}), JOBC_ATTEMPT="1")
    told = [line for line in capsys.readouterr().out.splitlines() if line.startswith("warning: step")]
    assert told[:2] == [
        f"warning: step {step} was not saved: [Errno 27] File too large; step_00000003 is kept" for step in (6, 9)
    ]
    assert given_up.value.code == exit_codes.CRASHED
    if background:  # these steps are so fast that the next save may have begun before the failure is known
        assert len(told) in (2, 3) and len(losses(tmp_path)) <= 16
    else:
        assert given_up.value.title == "step 9 was not saved: [Errno 27] File too large, 2 saves in a row"
        assert len(losses(tmp_path)) == 10  # agreed on with the step after the failure
    assert [path.name for path in (tmp_path / "checkpoints").glob("*step_*")] == ["step_00000003"]


def test_a_run_that_cannot_save_its_last_state_does_not_end_well(digits: Tree, tmp_path: Path) -> None:
    train(tmp_path, digits({"loop.steps": 2}))
    with largest_file(9000):
        with pytest.raises(TrainerError, match="step 3 was not saved") as stopped:
            train(tmp_path, digits(), received="SIGTERM")
        with pytest.raises(TrainerError, match="step 5 was not saved"):
            train(tmp_path, digits({"loop.steps": 5}))
    assert stopped.value.code == exit_codes.CRASHED and "--resume continues from the last checkpoint" in str(
        stopped.value
    )
    assert [path.name for path in store.checkpoints_newest_first(tmp_path / "checkpoints")] == ["step_00000002"]


def test_a_save_in_the_background_has_the_state_of_its_step(whole: Path, digits: Tree, tmp_path: Path) -> None:
    every = {"checkpoint.every_steps": 1, "checkpoint.keep": 99, "checkpoint.background": False}
    train(tmp_path / "waits", digits(every))
    train(tmp_path / "goes_on", digits({**every, "checkpoint.background": True}))
    assert losses(tmp_path / "goes_on") == losses(tmp_path / "waits") == losses(whole)
    folders = [store.checkpoints_newest_first(tmp_path / name / "checkpoints") for name in ("waits", "goes_on")]
    assert len(folders[0]) == len(folders[1]) == 20
    for waited, went_on in zip(*folders, strict=True):
        for name in ("weights.pt", "optimizer.pt", "rng.pt"):
            assert (waited / name).read_bytes() == (went_on / name).read_bytes(), (went_on.name, name)


def test_an_owner_finds_its_part_of_a_checkpoint_again(digits: Tree, tmp_path: Path) -> None:
    tree = digits({"loop.steps": 1})
    first = built(tmp_path, tree)
    first.parts["owner"] = {"seen": [1, 2]}
    run_training(first, Signals())  # type: ignore[arg-type]
    assert built(tmp_path, tree).parts["owner"] == {"seen": [1, 2]}


def test_a_full_disk_for_the_final_weights_is_one_line_and_a_resume_writes_them(
    digits: Tree, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train(tmp_path, digits({"loop.steps": 5}))
    (tmp_path / "final" / "weights.pt").unlink()
    with (
        largest_file(1000),
        pytest.raises(TrainerError, match=r"cannot write .*/final: \[Errno 27\] File too large") as refused,
    ):
        train(tmp_path, digits({"loop.steps": 5}))
    assert refused.value.code == exit_codes.CRASHED and "--resume" in str(refused.value)
    assert [path.name for path in (tmp_path / "final").iterdir()] == ["model.json"]
    assert train(tmp_path, digits({"loop.steps": 5})) == exit_codes.DONE
    assert weights(tmp_path)


def test_fewer_gpus_than_asked_for_are_refused_and_none_asked_for_is_the_cpu() -> None:
    seen = torch.cuda.device_count()
    with pytest.raises(BrokenInput, match=f"GPUs visible to torch: {seen}, required: {seen + 1}"):
        choose_device(environment.parse_environment({"JOBC_GPUS": str(seen + 1)}))
    assert choose_device(environment.parse_environment({"JOBC_GPUS": "0"})).type == "cpu"


def test_a_loss_that_is_no_number_ends_the_run_without_saving_it(digits: Tree, tmp_path: Path) -> None:
    with pytest.raises(LossDiverged, match="at step 2"):
        train(tmp_path, digits({"optim.lr": 1e38, "optim.clip_norm": None, "optim.warmup_steps": 0}))
    assert not (tmp_path / "checkpoints").exists()


def test_validation_counts_every_sample_once(whole: Path, digits: Tree, tmp_path: Path) -> None:
    train(tmp_path, digits({"loop.steps": 10, "batch.micro": 8, "batch.accumulation": 12}))
    once, again = validations(whole)[0], validations(tmp_path)[0]
    assert once["val_samples"] == again["val_samples"] == 359  # not a multiple of 96, nor of 8
    assert again["val_loss"] == pytest.approx(once["val_loss"], rel=1e-4)
    assert 0.2 < once["val_accuracy"] <= 1


def test_the_final_weights_are_plain_torch(whole: Path) -> None:
    state = torch.load(whole / "final" / "weights.pt", weights_only=True)
    assert [tuple(value.shape) for value in state.values()] == [(16, 64), (16,), (10, 16), (10,)]


@pytest.mark.parametrize("kind", ["digits", "gpt"])
def test_the_result_is_a_module_again(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    tree = request.getfixturevalue(kind)({"loop.steps": 2, "batch.micro": 8})
    training = built(tmp_path, tree)
    run_training(training, Signals())  # type: ignore[arg-type]
    module = load(tmp_path / "final")
    inputs, _ = training.source.validation.batch(torch.arange(3))
    with torch.no_grad():
        assert torch.equal(module(inputs), training.parallel.evaluated.model.eval()(inputs))


def test_weights_of_another_training_beside_model_json_are_refused(whole: Path, digits: Tree, tmp_path: Path) -> None:
    train(tmp_path, digits({"loop.steps": 1}))
    (tmp_path / "final" / "weights.pt").write_bytes(weights(whole))
    with pytest.raises(BrokenInput, match=r"does not belong to model\.json"):
        load(tmp_path / "final")


def test_a_finished_run_started_again_ends_the_same(
    whole: Path, digits: Tree, capsys: pytest.CaptureFixture[str]
) -> None:
    before = weights(whole)
    assert train(whole, digits({"loop.steps": 10})) == exit_codes.DONE
    assert weights(whole) == before
    *_, already, done = capsys.readouterr().out.splitlines()
    assert already == "already at step 20 of 10: nothing to train"
    assert done.startswith("done  20 steps  final/weights.pt sha256 ")


def test_epochs_and_drop_last_count_the_steps(digits: Tree, tmp_path: Path) -> None:
    train(tmp_path, digits({"loop.steps": None, "loop.epochs": 2, "loop.drop_last": True}))
    assert len(losses(tmp_path)) == 2 * (1438 // 96)


def test_checkpoints_lie_at_the_ends_of_epochs_after_a_resume_too(digits: Tree, tmp_path: Path) -> None:
    epochs = {"loop.steps": None, "loop.epochs": 5, "checkpoint.every_steps": None, "checkpoint.every_epochs": 2}
    tree = digits({**epochs, "checkpoint.keep": 9})
    assert train(tmp_path, tree, received="SIGTERM") == exit_codes.PREEMPTED
    assert train(tmp_path, tree) == exit_codes.DONE
    saved = [
        store.step_of_folder(folder) for folder in reversed(store.checkpoints_newest_first(tmp_path / "checkpoints"))
    ]
    assert saved == [1, 2 * 15, 4 * 15, 5 * 15], "the stop, every second epoch, the end"


def test_a_batch_larger_than_the_data_is_refused_with_drop_last(digits: Tree, tmp_path: Path) -> None:
    with pytest.raises(BrokenInput, match="do not fill one batch"):
        train(tmp_path, digits({"batch.micro": 2000, "loop.drop_last": True}))


@pytest.mark.parametrize("change", [{"loop.precision": "bf16"}, {"data.max_bytes": None, "loop.steps": 1}])
def test_a_gpt_trains(gpt: Tree, tmp_path: Path, change: dict[str, Any]) -> None:
    train(tmp_path, gpt({"batch.micro": 8, **change}))
    first = next(read_metrics(tmp_path / "metrics" / "rank_00.jsonl"))
    assert first["bits_per_byte"] == pytest.approx(8, abs=0.4)
    assert validations(tmp_path)[-1]["val_bits_per_byte"] < 8.1


def test_a_torn_line_of_metrics_is_ended_and_skipped(tmp_path: Path) -> None:
    RankMetricsFile(tmp_path, 0, 0, 10**6).write({"step": 1, "loss": 0.5})
    path = tmp_path / "metrics" / "rank_00.jsonl"
    path.write_bytes(path.read_bytes() + b'{"step": 2, "lo')
    RankMetricsFile(tmp_path, 0, 0, 10**6).write({"step": 2, "loss": 0.25})
    assert [line["step"] for line in read_metrics(path)] == [1, 2]


def test_metrics_of_a_repeated_step_are_those_of_the_last_attempt(tmp_path: Path) -> None:
    for attempt in (0, 1):
        RankMetricsFile(tmp_path, 0, 0, 10**6).write({"step": 1, "loss": attempt})
    assert last_step_lines(tmp_path / "metrics" / "rank_00.jsonl")[1]["loss"] == 1


def test_the_learning_rate_rises_and_falls(digits: Tree) -> None:
    changes = {"optim.schedule": "cosine", "optim.lr": 1.0, "optim.warmup_steps": 4, "optim.min_lr_ratio": 0.1}
    optim = train_json.parse_train_config(digits(changes)).optim
    assert [learning_rate_at_step(step, 20, optim) for step in range(4)] == [0.25, 0.5, 0.75, 1.0]
    assert learning_rate_at_step(4, 20, optim) == 1.0
    assert learning_rate_at_step(12, 20, optim) == pytest.approx(0.55)
    assert learning_rate_at_step(20, 20, optim) == pytest.approx(0.1)
    assert learning_rate_at_step(0, 1, optim) == 0.25


def test_nothing_warns(digits: Tree, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        train(tmp_path, digits({"loop.steps": 2}))
    assert json.loads((tmp_path / "checkpoints" / "step_00000002" / "state.json").read_text())["step"] == 2


def test_the_checkpoint_of_the_lowest_validation_loss_stays(digits: Tree, tmp_path: Path) -> None:
    every = {"loop.steps": 6, "checkpoint.every_steps": 1, "validation.every_steps": 3}
    train(tmp_path, digits(every))
    measured = {int(str(line["step"])): line["val_loss"] for line in validations(tmp_path)}
    assert measured.keys() == {3, 6}
    best = (tmp_path / "checkpoints" / "best").resolve()
    assert store.step_of_folder(best) == min(measured, key=lambda step: measured[step])
    assert json.loads((best / "MANIFEST.json").read_text())["val_loss"] == measured[store.step_of_folder(best)]
