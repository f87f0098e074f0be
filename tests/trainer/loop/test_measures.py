"""Reports of a training run: metrics files, console, trackers, MFU and differences between ranks."""

from __future__ import annotations

import dataclasses
import gzip
import json
import resource
import struct
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import pytest
import torch

from jobc.trainer.build.checks import validated_flops
from jobc.trainer.config.schema import GptConfig
from jobc.trainer.config.target import Target
from jobc.trainer.config.train_json import parse_train_config
from jobc.trainer.data.source import DataSource
from jobc.trainer.dist import compare_ranks
from jobc.trainer.dist.process_group import RankGroup
from jobc.trainer.lifecycle.errors import TrainerError
from jobc.trainer.loop.metrics import (
    RankMetricsFile,
    last_step_in_file,
    last_step_lines,
    read_metrics,
    rotated_files,
    seconds_between_writes,
)
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
    assert any(line.startswith("step times: p50 0.") and line.endswith("over 20 steps") for line in console)

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
