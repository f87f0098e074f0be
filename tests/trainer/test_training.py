"""Training in this process, as a world of one: loss, checkpoints, stopping, failing."""

from __future__ import annotations

import json
import resource
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from jobc.trainer import checkpoint_store as store
from jobc.trainer import config as configuration
from jobc.trainer import env as environment
from jobc.trainer.distributed import Group, choose_device
from jobc.trainer.errors import BrokenInput, Diverged, TrainerError
from jobc.trainer.loop import run
from jobc.trainer.metrics import MetricsFile, read, training_steps
from jobc.trainer.optimizer import lr_at
from jobc.trainer.rt import exit_codes
from jobc.trainer.training import build

pytestmark = pytest.mark.xdist_group("trainer")

Tree = Callable[..., dict[str, Any]]


class Signals:
    """What a process has received: nothing, or one signal."""

    def __init__(self, received: str | None = None) -> None:
        self.received = received


def train(folder: Path, tree: dict[str, Any], received: str | None = None, **env: str) -> int:
    """The trainer without its entry point: no process group, no signal handlers."""
    values = environment.read({"JOBC_RUN_DIR": str(folder), **env})
    group = Group(0, 1, torch.device("cpu"))
    return run(build(configuration.parse(tree), values, group), Signals(received))  # type: ignore[arg-type]


def losses(folder: Path) -> list[str]:
    return [str(line["loss_hex"]) for line in training_steps(folder / "metrics" / "rank_00.jsonl").values()]


def validations(folder: Path) -> list[dict[str, Any]]:
    return [line for line in read(folder / "metrics" / "rank_00.jsonl") if "val_loss" in line]


def weights(folder: Path) -> bytes:
    return (folder / "final" / "weights.pt").read_bytes()


@pytest.fixture(autouse=True)
def settings_of_torch() -> Iterator[None]:
    """Training sets threads and determinism for its process; here other tests follow."""
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(False)


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
    assert capsys.readouterr().out.splitlines()[-1] == "stopped by SIGTERM after step 4/20, to be resumed"
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
    with pytest.raises(BrokenInput, match="start a new run; --fork takes these weights"):
        train(tmp_path, digits({"optim.lr": 0.5}))


def test_a_fork_takes_the_weights_and_starts_at_step_0(whole: Path, digits: Tree, tmp_path: Path) -> None:
    train(tmp_path, digits({"optim.lr": 1e-9}), JOBC_INIT_FROM=str(whole))
    assert len(losses(tmp_path)) == 20
    assert validations(tmp_path)[0]["val_loss"] == pytest.approx(validations(whole)[-1]["val_loss"], rel=1e-3)


def test_a_fork_from_nothing_or_from_another_model_is_refused(whole: Path, digits: Tree, tmp_path: Path) -> None:
    with pytest.raises(BrokenInput, match="no checkpoint"):
        train(tmp_path, digits(), JOBC_INIT_FROM=str(tmp_path))
    with pytest.raises(BrokenInput, match="of another model"):
        train(tmp_path, digits({"model.hidden": 8}), JOBC_INIT_FROM=str(whole))


def test_a_full_disk_costs_the_checkpoint_and_not_the_training(
    digits: Tree, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train(tmp_path, digits({"loop.steps": 5, "checkpoint.every_steps": 5}))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (6000, hard))  # metrics and the final weights fit, a checkpoint does not
    try:
        assert train(tmp_path, digits({"loop.steps": 9}), received="SIGUSR1") == exit_codes.PREEMPTED
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "warning: step 6 was not saved: [Errno 27] File too large" in capsys.readouterr().out
    assert [path.name for path in store.newest_first(tmp_path / "checkpoints")] == ["step_00000005"]


def test_a_full_disk_for_the_final_weights_is_one_line_and_a_resume_writes_them(
    digits: Tree, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train(tmp_path, digits({"loop.steps": 5}))
    (tmp_path / "final" / "weights.pt").unlink()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(TrainerError, match=r"cannot write .*/final/weights.pt: File too large") as refused:
            train(tmp_path, digits({"loop.steps": 5}))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert refused.value.code == exit_codes.CRASHED and "--resume" in str(refused.value)
    assert not list((tmp_path / "final").iterdir())
    assert train(tmp_path, digits({"loop.steps": 5})) == exit_codes.DONE
    assert weights(tmp_path)


def test_fewer_gpus_than_asked_for_are_refused_and_none_asked_for_is_the_cpu() -> None:
    seen = torch.cuda.device_count()
    with pytest.raises(BrokenInput, match=f"GPUs seen by torch: {seen}, wanted: {seen + 1}"):
        choose_device(environment.read({"JOBC_GPUS": str(seen + 1)}))
    assert choose_device(environment.read({"JOBC_GPUS": "0"})).type == "cpu"


def test_the_stop_file_ends_a_run_for_good(digits: Tree, tmp_path: Path) -> None:
    (tmp_path / "control").mkdir()
    (tmp_path / "control" / "STOP").touch()
    assert train(tmp_path, digits()) == exit_codes.DONE
    assert (tmp_path / "checkpoints" / "step_00000001").exists()
    assert not (tmp_path / "final").exists()


def test_the_save_file_saves_once_and_goes_on(digits: Tree, tmp_path: Path) -> None:
    (tmp_path / "control").mkdir()
    (tmp_path / "control" / "SAVE").touch()
    train(tmp_path, digits({"loop.steps": 3}))
    assert not (tmp_path / "control" / "SAVE").exists()
    assert [path.name for path in store.newest_first(tmp_path / "checkpoints")] == ["step_00000003", "step_00000001"]


def test_a_loss_that_is_no_number_ends_the_run_without_saving_it(digits: Tree, tmp_path: Path) -> None:
    with pytest.raises(Diverged, match="at step 2"):
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


def test_a_batch_larger_than_the_data_is_refused_with_drop_last(digits: Tree, tmp_path: Path) -> None:
    with pytest.raises(BrokenInput, match="do not fill one batch"):
        train(tmp_path, digits({"batch.micro": 2000, "loop.drop_last": True}))


@pytest.mark.parametrize("change", [{"loop.precision": "bf16"}, {"data.max_bytes": None, "loop.steps": 1}])
def test_a_gpt_trains(gpt: Tree, tmp_path: Path, change: dict[str, Any]) -> None:
    train(tmp_path, gpt({"batch.micro": 8, **change}))
    first = next(read(tmp_path / "metrics" / "rank_00.jsonl"))
    assert first["bits_per_byte"] == pytest.approx(8, abs=0.4)
    assert validations(tmp_path)[-1]["val_bits_per_byte"] < 8.1


def test_a_torn_line_of_metrics_is_ended_and_skipped(tmp_path: Path) -> None:
    MetricsFile(tmp_path, 0, 0, 10**6).write({"step": 1, "loss": 0.5})
    path = tmp_path / "metrics" / "rank_00.jsonl"
    path.write_bytes(path.read_bytes() + b'{"step": 2, "lo')
    MetricsFile(tmp_path, 0, 0, 10**6).write({"step": 2, "loss": 0.25})
    assert [line["step"] for line in read(path)] == [1, 2]


def test_metrics_of_a_repeated_step_are_those_of_the_last_attempt(tmp_path: Path) -> None:
    for attempt in (0, 1):
        MetricsFile(tmp_path, 0, 0, 10**6).write({"step": 1, "loss": attempt})
    assert training_steps(tmp_path / "metrics" / "rank_00.jsonl")[1]["loss"] == 1


def test_the_learning_rate_rises_and_falls(digits: Tree) -> None:
    changes = {"optim.schedule": "cosine", "optim.lr": 1.0, "optim.warmup_steps": 4, "optim.min_lr_ratio": 0.1}
    optim = configuration.parse(digits(changes)).optim
    assert [lr_at(step, 20, optim) for step in range(4)] == [0.25, 0.5, 0.75, 1.0]
    assert lr_at(4, 20, optim) == 1.0
    assert lr_at(12, 20, optim) == pytest.approx(0.55)
    assert lr_at(20, 20, optim) == pytest.approx(0.1)
    assert lr_at(0, 1, optim) == 0.25


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
    assert store.step_of(best) == min(measured, key=lambda step: measured[step])
    assert json.loads((best / "MANIFEST.json").read_text())["val_loss"] == measured[store.step_of(best)]
