"""Reports of a training run: metrics files, console, trackers, profile; and when it gives up."""

from __future__ import annotations

import dataclasses
import errno
import gzip
import json
import os
import resource
import struct
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any, cast

import pytest
import torch

from jobc.runtime.exit_codes import DATA_BROKEN
from jobc.trainer import files
from jobc.trainer.build.checks import validated_flops
from jobc.trainer.config.schema import GptConfig, ProfileConfig
from jobc.trainer.config.target import Target
from jobc.trainer.config.train_json import parse_train_config
from jobc.trainer.data.source import DataSource
from jobc.trainer.dist import compare_ranks
from jobc.trainer.dist.process_group import RankGroup
from jobc.trainer.lifecycle.errors import BrokenInput, LossDiverged, TrainerError
from jobc.trainer.loop import attempt_counter
from jobc.trainer.loop.metrics import (
    RankMetricsFile,
    last_step_in_file,
    last_step_lines,
    read_metrics,
    rotated_files,
    seconds_between_writes,
)
from jobc.trainer.loop.profiling import StepProfiler
from jobc.trainer.recipe.mfu import flops_per_sample, peak_flops, percentile
from jobc.trainer.recipe.recipe import Recipe
from jobc.trainer.trackers import TrackedRun, Trackers
from jobc.trainer.trackers.tensorboard import masked_crc32c, open_run

from ..in_process import train

pytestmark = [pytest.mark.xdist_group("training"), pytest.mark.usefixtures("settings_of_torch")]
Tree = Callable[..., dict[str, Any]]


class Recorder:
    """A tracker of the user's own."""

    runs: list[Recorder] = []  # noqa: RUF012

    def __init__(self, run: TrackedRun) -> None:
        self.run, self.logged, self.done = run, [], None  # type: TrackedRun, list[tuple[int, dict[str, float]]], Any
        Recorder.runs.append(self)

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self.logged.append((step, dict(values)))

    def close(self, done: bool) -> None:
        self.done = done


class Blocked(Recorder):
    """A tracker that waits for its network."""

    def log(self, step: int, values: Mapping[str, float]) -> None:
        time.sleep(3600)


class Unreachable(Recorder):
    """A tracker whose server is unreachable."""

    def log(self, step: int, values: Mapping[str, float]) -> None:
        raise ConnectionError("no route to host\nmore")


class Leaving(Recorder):
    """A tracker that assumes it owns the process, and changes its arguments."""

    def log(self, step: int, values: Mapping[str, float]) -> None:
        cast("dict[str, float]", values).clear()
        sys.exit(3)


EVERYTHING = {
    "metrics.every_steps": 2,
    "metrics.flush_s": 60.0,
    "metrics.trackers": ["tensorboard", f"{__name__}:Leaving", f"{__name__}:Recorder", f"{__name__}:Unreachable"],
    "profile.steps": [3, 4],
}


def test_a_training_with_everything_on(gpt: Tree, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train(tmp_path, gpt({"loop.steps": 20, "batch.micro": 4, **EVERYTHING}), JOBC_RUN_ID="20260131-120000-1f2e")
    told = capsys.readouterr()

    lines = last_step_lines(tmp_path / "metrics" / "rank_00.jsonl")
    assert list(lines) == list(range(1, 21))  # though they were written in few pieces
    for line in lines.values():
        parts = sum(float(str(line[f"{phase}_s"])) for phase in ("data", "forward", "backward"))
        assert 0 < parts < float(str(line["step_s"]))
        assert line["mfu"] is None  # a CPU has no peak that means anything
    *_, last = read_metrics(tmp_path / "metrics" / "rank_00.jsonl")
    assert last["step_s_p50"] <= last["step_s_p95"] <= last["step_s_p99"]  # type: ignore[operator]

    console = told.out.splitlines()
    step = next(line for line in console if line.startswith("step 20/20  loss"))
    assert "tok/s  data " in step
    assert " GiB  eta 0:00" in step
    assert any(line.startswith("step times: p50 0.") and line.endswith("of 20 steps") for line in console)

    recorder = next(one for one in Recorder.runs if type(one) is Recorder)
    assert (recorder.run.id, recorder.run.step, recorder.done) == ("20260131-120000-1f2e", 0, True)
    assert [step for step, values in recorder.logged if "train/loss" in values] == list(range(2, 21, 2))
    assert any("val/loss" in values for _, values in recorder.logged)
    warning = f"warning: tracker {__name__}:Unreachable is disabled from now on: ConnectionError: no route to host\n"
    assert told.err.count(warning) == 1
    assert told.err.count(f"warning: tracker {__name__}:Leaving is disabled from now on: SystemExit: 3\n") == 1
    assert scalars(tmp_path / "tensorboard")[20]["train/loss"] == pytest.approx(lines[20]["loss"])

    with gzip.open(tmp_path / "profile" / "rank_00_steps_3-4.json.gz") as trace:
        names = {event["name"] for event in json.load(trace)["traceEvents"]}
    assert "aten::addmm" in names or "aten::mm" in names
    assert "profile of steps 3 to 4: profile/rank_00_steps_3-4.json.gz" in console


@pytest.mark.parametrize(
    ("how", "changes", "last"),
    [
        ("done", {"loop.steps": 3}, 3),
        ("stopped", {}, 1),
        ("diverged", {"optim.lr": 1e38, "optim.clip_norm": None, "optim.warmup_steps": 0}, 2),
    ],
)
def test_a_profile_that_is_open_is_written_whatever_ends_the_steps(
    how: str, changes: dict[str, Any], last: int, digits: Tree, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "control").mkdir()
    if how == "stopped":
        (tmp_path / "control" / "STOP").touch()
    with pytest.raises(LossDiverged) if how == "diverged" else nullcontext():
        train(tmp_path, digits({"profile.steps": [1, 100], **changes}))
    assert [path.name for path in (tmp_path / "profile").iterdir()] == [f"rank_00_steps_1-{last}.json.gz"]
    assert f"profile of steps 1 to {last}: profile/rank_00" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("theirs", "why"),
    [
        (range(1, 4), "another profiler is running in this process"),
        (range(2, 3), "another profiler in this process stopped this one"),
    ],
)
def test_a_profiler_of_the_recipes_own_costs_the_profile_alone(theirs: range, why: str, tmp_path: Path) -> None:
    profiling, told = StepProfiler(ProfileConfig(steps=(1, 3), ranks=(0,)), 0, tmp_path), []
    own = torch.profiler.profile()
    for step in range(1, 4):
        if step == theirs.start == 1:
            own.start()
        told.append(profiling.before_step(step))
        if step == theirs.start > 1:
            own.start()
        torch.ones(2) + 1
        if step == theirs[-1]:
            own.stop()
        told.append(profiling.after_step(step))
    assert [line for line in [*told, profiling.write_profile()] if line] == [f"warning: no profile: {why}"]
    assert any(event.key == "aten::add" for event in own.key_averages())  # theirs is whole


def test_a_profile_that_begins_behind_the_last_step_is_warned_of(
    digits: Tree, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train(tmp_path, digits({"loop.steps": 3, "profile.steps": [4, 5]}))
    assert "warning: no profile: profile.steps starts at 4, but the last step is 3" in capsys.readouterr().out
    assert not (tmp_path / "profile").exists()


def test_a_profile_of_no_rank_is_warned_of(digits: Tree, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train(tmp_path, digits({"loop.steps": 3, "profile.steps": [1, 2], "profile.ranks": []}))
    assert "warning: no profile: profile.ranks is empty" in capsys.readouterr().out


def test_a_profile_of_steps_that_were_done_before_this_attempt_is_warned_of(
    digits: Tree, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train(tmp_path, digits({"loop.steps": 2}))
    capsys.readouterr()
    train(tmp_path, digits({"loop.steps": 4, "profile.steps": [1, 2]}))
    assert "warning: no profile: profile.steps ends at 2, but this attempt starts at step 3" in capsys.readouterr().out
    train(tmp_path, digits({"loop.steps": 6, "profile.steps": [5, 5]}))
    train(tmp_path, digits({"loop.steps": 7, "profile.steps": [5, 5]}))
    assert "no profile" not in capsys.readouterr().out  # an earlier attempt wrote it


def test_trackers_are_told_whether_the_training_is_complete(digits: Tree, tmp_path: Path) -> None:
    tree = digits({"loop.steps": 2, "metrics.trackers": [f"{__name__}:Recorder"]})
    (tmp_path / "control").mkdir()
    (tmp_path / "control" / "STOP").touch()
    train(tmp_path, tree)
    (tmp_path / "control" / "STOP").unlink()
    (tmp_path / "final").touch()  # where the folder of the weights belongs
    with pytest.raises(TrainerError, match="cannot write"):
        train(tmp_path, tree)
    (tmp_path / "final").unlink()
    for _ in range(2):  # the second one has nothing to do
        train(tmp_path, tree)
    told = [run.done for run in Recorder.runs if run.run.folder == tmp_path]
    assert told == [False, False, True, True]


def scalars(folder: Path) -> dict[int, dict[str, float]]:
    """step -> name -> value of all event files, read by the format's own description."""
    found: dict[int, dict[str, float]] = {}
    for path in sorted(folder.iterdir()):
        content = path.read_bytes()
        while content:
            (length,) = struct.unpack("<Q", content[:8])
            assert content[8:12] == masked_crc32c(content[:8])
            event, content = content[12 : 12 + length], content[12 + length :]
            assert content[:4] == masked_crc32c(event)
            content = content[4:]
            fields = dict(protobuf(event))
            if 5 in fields:
                values = [dict(protobuf(one)) for number, one in protobuf(fields[5]) if number == 1]
                found.setdefault(fields[2], {}).update(
                    {one[1].decode(): struct.unpack("<f", one[2])[0] for one in values}
                )
    return found


def protobuf(message: bytes) -> Iterator[tuple[int, Any]]:
    """Yield (field, value) of a message: varints, 8 or 4 bytes, or text."""

    def varint() -> int:
        nonlocal message
        value = shift = 0
        while True:
            byte, message = message[0], message[1:]
            value, shift = value | (byte & 0x7F) << shift, shift + 7
            if byte < 0x80:
                return value

    while message:
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
            continue
        size = varint() if key & 7 == 2 else {1: 8, 5: 4}[key & 7]
        value, message = message[:size], message[size:]
        yield key >> 3, value


def test_checksums_are_those_of_tensorflow() -> None:
    # CRC-32C of 32 zero bytes is 8a9136aa (RFC 3720, B.4); masked as in TensorFlow's lib/hash/crc32c.h
    masked = ((0x8A9136AA >> 15 | 0x8A9136AA << 17) + 0xA282EAD8) & 0xFFFFFFFF
    assert masked_crc32c(bytes(32)) == struct.pack("<I", masked)


@pytest.mark.parametrize("steps", [0, 7])  # 0: the one before ended before its first save
def test_a_later_attempt_voids_what_an_earlier_one_logged_for_its_steps(steps: int, tmp_path: Path) -> None:
    open_run(TrackedRun("id", "job", tmp_path, steps, {})).close(False)
    (file,) = (tmp_path / "tensorboard").iterdir()
    content = file.read_bytes()
    first = 12 + struct.unpack("<Q", content[:8])[0] + 4
    event = dict(protobuf(content[first + 12 : -4]))
    assert (event[2], event[7]) == (steps + 1, b"\x08\x01")  # from that step on; SessionLog START


def test_a_tracker_that_blocks_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("jobc.trainer.trackers.CLOSE_S", 0.2)
    trackers = Trackers([f"{__name__}:Blocked"], TrackedRun("id", "job", tmp_path, 0, {}))
    for step in range(5000):
        trackers.log(step, {"a": 1.0})
    trackers.close(True)
    assert (
        f"tracker {__name__}:Blocked did not accept everything within 0 s; all numbers are in metrics/"
        in capfd.readouterr().err
    )


def test_lines_are_written_together_rotated_and_read_back_complete(tmp_path: Path) -> None:
    file = RankMetricsFile(tmp_path, 0, flush_s=60, max_bytes=2000)
    path = tmp_path / "metrics" / "rank_00.jsonl"
    for step in range(1, 201):
        file.write({"step": step, "loss": 0.5})
        if step % 10 == 0:
            file.flush()
        elif step < 10:
            assert path.stat().st_size == 0
    assert len(rotated_files(path)) > 1
    assert all(part.stat().st_size <= 2000 for part in (*rotated_files(path), path))
    assert path.stat().st_size > 0  # so that jobctl status, which looks there, always finds the last step
    assert list(last_step_lines(path)) == list(range(1, 201))
    assert last_step_in_file(path) == 200
    again = RankMetricsFile(tmp_path, 0, flush_s=0, max_bytes=10)
    again.write({"step": 201, "loss": 0.5})
    assert last_step_in_file(path) == 201
    assert len(last_step_lines(path)) == 201


def test_a_disk_that_is_full_when_a_run_goes_on_costs_lines_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "metrics").mkdir()
    path = tmp_path / "metrics" / "rank_00.jsonl"
    path.write_text('{"step": 1}\n{"st')  # torn
    unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size, unlimited[1]))  # EFBIG, as a full disk
    try:
        file = RankMetricsFile(tmp_path, 0, 0, 1000)
        file.write({"step": 2})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
    assert capsys.readouterr().err.count("warning: metrics are not written: ") == 1
    file.write({"step": 3})
    assert path.read_text().endswith('{"step": 3}\n')


def test_a_node_writes_twice_a_second_at_most() -> None:
    assert [seconds_between_writes(1.0, ranks) for ranks in (1, 2, 8, 64)] == [1.0, 1.0, 4.0, 32.0]
    assert seconds_between_writes(0.0, 8) == 0.0


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_steps_without_a_finite_gradient_are_skipped_but_not_for_ever(
    precision: str, digits: Tree, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wild = {"optim.lr": 1e38, "optim.clip_norm": None, "optim.warmup_steps": 0, "loop.on_nan": "skip"}
    wild["loop.precision"] = precision
    with pytest.raises(LossDiverged, match="NaN or Inf gradients in more than 3 steps in a row, up to step 5"):
        train(tmp_path, digits({**wild, "loop.max_skips": 3}))
    told = capsys.readouterr().out
    words = "the loss of rank 0 is nan; 1 in a row, limit 3"
    assert f"warning: step 2 skipped without updating the weights: {words}" in told
    lines = last_step_lines(tmp_path / "metrics" / "rank_00.jsonl")
    assert [bool(line.get("skipped")) for line in lines.values()] == [False, True, True, True, True]
    assert lines[2]["loss"] is None
    if precision == "fp16":  # whose factor is not to blame for a loss that is no number
        assert {line["loss_scale"] for line in lines.values()} == {2.0**16}


def test_a_run_that_gets_nowhere_is_ended_and_may_be_tried_again_by_hand(tmp_path: Path) -> None:
    metrics = tmp_path / "metrics" / "rank_00.jsonl"
    metrics.parent.mkdir()
    metrics.write_text('{"step": 59, "loss": 1}\n')
    attempt_counter.record_start_or_reject_loop(tmp_path, 2)  # came further than anything before
    attempt_counter.record_start_or_reject_loop(tmp_path, 2)  # 1 without a new step
    with pytest.raises(BrokenInput, match="crash loop: 2 consecutive starts completed no step beyond step 59") as e:
        attempt_counter.record_start_or_reject_loop(tmp_path, 2)
    assert e.value.code == DATA_BROKEN
    attempt_counter.record_start_or_reject_loop(tmp_path, 2)
    metrics.write_text('{"step": 60, "loss": 1}\n')
    for _ in range(2):
        attempt_counter.record_start_or_reject_loop(tmp_path, 2)  # the first of them finds a new step
    attempt_counter.record_normal_end(tmp_path)  # preempted: not the run's own fault
    for _ in range(2):
        attempt_counter.record_start_or_reject_loop(tmp_path, 2)


def test_a_run_that_falls_back_further_each_time_gets_nowhere(tmp_path: Path) -> None:
    metrics = tmp_path / "metrics" / "rank_00.jsonl"
    metrics.parent.mkdir()
    ended = []
    for step in (150, 140, 145, 120, 130, 110, 111, 105, 109):
        metrics.write_text(f'{{"step": {step}, "loss": 1}}\n')
        try:
            attempt_counter.record_start_or_reject_loop(tmp_path, 3)
        except BrokenInput as error:
            assert "completed no step beyond step 150" in str(error)
            ended.append(step)
    assert ended == [120, 111], "after three that came no further, and three more, which somebody began by hand"


def test_a_start_whose_disk_does_not_give_the_checkpoints_is_not_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt_counter.record_start_or_reject_loop(tmp_path, 1)
    before = (tmp_path / "state" / "progress").read_text()

    def stale(path: Path) -> list[str]:
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

    with monkeypatch.context() as bad:
        bad.setattr(files, "PAUSES_S", ())
        bad.setattr(os, "listdir", stale)
        attempt_counter.record_start_or_reject_loop(tmp_path, 1)
    assert (tmp_path / "state" / "progress").read_text() == before


@pytest.mark.parametrize("content", [b"", b"\0\0\0\0", b"step=7\n", b"step=\nfruitless=\n"])
def test_a_count_that_a_power_failure_has_left_empty_is_none(tmp_path: Path, content: bytes) -> None:
    progress = tmp_path / "state" / "progress"
    progress.parent.mkdir()
    progress.write_bytes(content)
    attempt_counter.record_start_or_reject_loop(tmp_path, 1)
    assert progress.read_text() == "step=0\nfruitless=0\n"


def test_ranks_that_are_not_alike_are_listed() -> None:
    one, two = {"host": "a", "torch": "2.13.0", "CPU capability": "AVX2"}, {"host": "b", "torch": "2.12.1"}
    assert compare_ranks.fact_differences([one, one, one, {**one, "host": "c"}]) == []
    assert compare_ranks.fact_differences([one, one, two, one]) == [
        "torch: 2.13.0 on ranks 0-1, 3; 2.12.1 on rank 2",
        "CPU capability: AVX2 on ranks 0-1, 3; none on rank 2",
    ]
    (mine,) = compare_ranks.gather_rank_facts(RankGroup(0, 1, torch.device("cpu")))
    assert mine["torch"] == torch.__version__


@pytest.mark.parametrize(("hosts", "shards", "told"), [
    ("aabb", 2, ""), ("aabb", 4, ""), ("aabb", 1, ""), ("abc", 3, ""),
    ("abab", 2, "ranks 0-1 share a copy of the model, on a, b"),
    ("aabbccdd", 4, ""), ("aaabbbcc", 2, "ranks 2-3 share a copy of the model, on a, b"),
])  # fmt: skip
def test_a_copy_that_is_on_more_nodes_than_it_needs_is_told(hosts: str, shards: int, told: str) -> None:
    assert compare_ranks.describe_scattered_copy([{"host": host} for host in hosts], shards) == told


class Counted(Recipe):
    """A user's recipe that knows the cost of a sample."""

    def flops_per_sample(self, num_parameters: int) -> float | None:
        return 2 * num_parameters


class BuildsItsOwn(Recipe):
    """Return a model, whatever the config's section `model` contains."""

    def build_model(self, source: DataSource) -> torch.nn.Module:
        return torch.nn.Linear(3, 2)


def test_a_recipe_says_what_its_model_takes(digits: Tree) -> None:
    of_the_trainer = parse_train_config(digits())
    own = dataclasses.replace(of_the_trainer, model=Target({"_target_": "torch.nn.Linear"}))
    assert [validated_flops(Recipe(config), 7) for config in (of_the_trainer, own)] == [42.0, None]
    assert validated_flops(Counted(own), 7) == 14.0
    assert validated_flops(BuildsItsOwn(of_the_trainer), 7) is None


def test_mfu_of_known_gpus() -> None:
    names = {"NVIDIA H200": 989e12, "NVIDIA H100 PCIe": 756e12, "NVIDIA A100-SXM4-80GB": 312e12, "NVIDIA L4": 121e12}
    assert {name: peak_flops(name) for name in names} == names
    assert peak_flops("NVIDIA T4000") is None
    gpt2 = GptConfig("gpt", layers=12, heads=12, width=768, context=1024, dropout=0.0)
    per_token = (flops_per_sample(gpt2, 124_475_904) or 0) / 1024
    assert per_token == pytest.approx(0.855e9, rel=0.01)
    assert [percentile(range(1, 101), percent) for percent in (50, 95, 99)] == [50, 95, 99]
