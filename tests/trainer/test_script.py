"""trainer/script.py with one rank alone: the metrics that it writes."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
import yaml

from jobc.tests.trainer.forked import run_forked
from jobc.trainer import script

FULL_DISK = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (20, -1)); rt.log(2, loss=1); rt.log(3, loss=1)"


def alone(work: str, folder: Path, init: str = "") -> subprocess.CompletedProcess[str]:
    """A program with the helper, in a folder of its own."""
    outer = {k: v for k, v in os.environ.items() if not k.startswith(("JOBC_", "TORCHELASTIC_"))}
    program = f"from jobc.trainer import script; rt = script.init({init})\n{work}"
    return run_forked(program, folder, outer)


def steps(folder: Path) -> list[int]:
    return [json.loads(line)["step"] for line in (folder / "run/metrics/rank_00.jsonl").read_text().splitlines()]


def test_a_full_disk_costs_lines_of_metrics_and_not_the_run(tmp_path: Path) -> None:
    room = "resource.setrlimit(resource.RLIMIT_FSIZE, (-1, -1))"
    work = f"{FULL_DISK}; rt.save(3, {{}}); {room}; rt.log(4, loss=1); rt.save(4, {{}}); rt.finish(); print('finished')"
    done = alone(work, tmp_path)
    assert done.returncode == 0 and "finished" in done.stdout, done.stderr
    assert done.stderr.count("warning: metrics are not written: ") == 1


ROOM = "rt._saver.wait_on_all_ranks(); resource.setrlimit(resource.RLIMIT_FSIZE, (-1, -1))"


@pytest.mark.parametrize("background", [True, False])
@pytest.mark.parametrize(
    ("end", "code"),
    [("", 1), ("sys.exit()", 1), ("sys.exit(3)", 3), (f"{ROOM}; rt.save(2, {{}}); sys.exit(0)", 0), ("rt.leave()", 1)],
)
def test_a_script_whose_last_save_has_failed_does_not_end_with_0(
    end: str, code: int, background: bool, tmp_path: Path
) -> None:
    full = "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (20, -1))"
    done = alone(f"{full}; rt.save(1, {{}}, wait={not background}); {end}", tmp_path)
    assert done.returncode == code, done.stderr
    assert done.stderr.count("error: step 1 was not saved: ") == (code == 1)


def test_a_number_that_json_has_no_word_for_is_null(tmp_path: Path) -> None:
    done = alone("rt.log(1, loss=float('nan'), norm=float('inf'), lr=0.5); rt.finish()", tmp_path)
    assert done.returncode == 0, done.stderr
    line = (tmp_path / "run/metrics/rank_00.jsonl").read_text()
    assert line.startswith('{"step": 1, "loss": null, "norm": null, "lr": 0.5, ')


def test_many_lines_are_one_write_and_begin_after_the_torn_one_of_the_attempt_before(tmp_path: Path) -> None:
    (tmp_path / "run" / "metrics").mkdir(parents=True)
    (tmp_path / "run/metrics/rank_00.jsonl").write_text('{"step": 1}\n{"st')
    program = """import os
real, calls = os.write, []
os.write = lambda *arguments: calls.append(1) or real(*arguments)
for step in range(2, 1001):
    rt.log(step, loss=1)
rt.finish()
print("writes:", len(calls))"""
    done = alone(program, tmp_path)
    assert done.returncode == 0, done.stderr
    lines = (tmp_path / "run/metrics/rank_00.jsonl").read_text().splitlines()
    assert lines[1] == '{"st' and [json.loads(line)["step"] for line in lines[2:]] == list(range(2, 1001))
    assert int(done.stdout.rpartition("writes: ")[2]) < 100  # one a second


@pytest.mark.parametrize(
    ("end", "code"),
    [("rt.leave()", 75), ("rt.save(2, {}); os._exit(9)", 9), ("1 / 0", 1), ("sys.exit(3)", 3)],
)
def test_no_line_is_lost_at_an_end_that_is_not_a_kill(end: str, code: int, tmp_path: Path) -> None:
    done = alone(f"import os, sys; rt.log(1, loss=1); rt.log(2, loss=1); {end}", tmp_path)
    assert done.returncode == code, done.stderr
    assert steps(tmp_path) == [1, 2]


SHOW = "print('holds', int(torch.load(rt.run_dir / 'checkpoints/step_00000005/state.pt')['w']), flush=True)"


def test_a_step_that_is_saved_again_is_replaced(tmp_path: Path) -> None:
    done = alone(f"import torch; rt.save(5, {{'w': 0}}); rt.save(5, {{'w': 1}}); {SHOW}; rt.finish()", tmp_path)
    assert done.returncode == 0 and "holds 1" in done.stdout, done.stdout + done.stderr
    done = alone(f"import torch; rt.load(); rt.save(5, {{'w': 2}}); {SHOW}; rt.save(4, {{'w': 3}})", tmp_path)
    assert "holds 2" in done.stdout, done.stdout + done.stderr
    assert done.returncode == 65 and "save(4) after step 5" in done.stderr, done.stderr
    done = alone("rt.save(9, {'w': 4})", tmp_path)  # it does not load
    assert done.returncode == 65 and "contains step 5 from an earlier start" in done.stderr, done.stderr
    assert [path.name for path in (tmp_path / "run/checkpoints").iterdir()] == ["step_00000005"]


def test_to_keep_no_checkpoint_is_refused(tmp_path: Path) -> None:
    done = alone("rt.save(1, {})", tmp_path, "keep=0")
    assert done.returncode == 65 and done.stderr.startswith("error: init(): keep=0 would remove"), done.stderr


@pytest.mark.parametrize("step", ["-1", "5.0", "True", "'1'", "None"])
def test_a_save_after_what_is_no_number_of_steps_is_refused(step: str, tmp_path: Path) -> None:
    done = alone(f"rt.save({step}, {{}})", tmp_path)
    assert done.returncode == 65 and done.stderr.startswith(f"error: save(): {step} is not a step number"), done.stderr
    assert not (tmp_path / "run/checkpoints").exists()


@pytest.mark.parametrize("name", ["attempt", "time", "world_size"])
def test_no_number_takes_the_name_of_what_each_line_has(name: str, tmp_path: Path) -> None:
    done = alone(f"rt.log(1, loss=1, {name}=3.5)", tmp_path)
    assert done.returncode == 65 and done.stderr.startswith(f"error: log(): {name} is reserved"), done.stderr


def test_a_second_finish_does_nothing(tmp_path: Path) -> None:
    done = alone("rt.finish(); rt.finish()", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("call", ["save(1, {})", "load()", "preempted()", "leave()"])
def test_what_ranks_do_together_is_refused_when_they_have_parted(call: str, tmp_path: Path) -> None:
    done = alone(f"rt.finish(); rt.{call}", tmp_path)
    assert done.returncode == 65
    assert f"error: {call.partition('(')[0]}() after finish(): the process group is closed" in done.stderr


def test_every_save_refuses_what_could_not_be_read_back(tmp_path: Path) -> None:
    done = alone("import datetime; rt.save(1, {'when': None}); rt.save(2, {'when': datetime.date.today()})", tmp_path)
    assert done.returncode == 65 and "datetime.date was not an allowed" in done.stderr, done.stderr
    assert [path.name for path in (tmp_path / "run/checkpoints").iterdir()] == ["step_00000001"]


def test_a_damaged_checkpoint_does_not_take_the_place_of_a_sound_one(tmp_path: Path) -> None:
    done = alone("rt.save(5, {'w': 0}); rt.save(9, {'w': 1})", tmp_path, "keep=2")
    checkpoints = tmp_path / "run/checkpoints"
    (checkpoints / "step_00000009/state.pt").write_bytes(b"torn")
    done = alone("assert rt.load() == {'w': 0}; rt.save(6, {'w': 2})", tmp_path, "keep=1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert [path.name for path in checkpoints.iterdir()] == ["step_00000006"]


STALE = """
import errno, os
from jobc.trainer import files as patient

def stale(path, *arguments, **keywords):
    if str(path).endswith("MANIFEST.json"):
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
    return open_file(path, *arguments, **keywords)

open_file, os.open, patient.PAUSES_S = os.open, stale, ()
"""


def test_a_checkpoint_that_the_disk_does_not_give_ends_with_69_and_stays(tmp_path: Path) -> None:
    alone("rt.save(5, {'w': 0}); rt.save(9, {'w': 1})", tmp_path, "keep=2")
    done = alone(f"{STALE}\nrt.load(); rt.save(10, {{}})", tmp_path, "keep=1")
    assert done.returncode == 69
    title, hint = done.stderr.splitlines()
    assert title.endswith("/step_00000009/MANIFEST.json cannot be read: Stale file handle")
    assert hint.endswith("to continue without that checkpoint, move its folder away")
    assert alone("assert rt.load() == {'w': 1}", tmp_path).returncode == 0


@pytest.mark.parametrize(("end", "code"), [("1 / 0", 1), ("sys.exit(3)", 3)])
def test_an_end_waits_for_the_save_beside(end: str, code: int, tmp_path: Path) -> None:
    work = f"import sys, torch; rt.save(1, {{'w': torch.zeros(5_000_000)}}, wait=False); {end}"
    done = alone(work, tmp_path)
    assert done.returncode == code and "saved checkpoints/step_00000001" in done.stdout, done.stdout + done.stderr
    assert (tmp_path / "run/checkpoints/step_00000001/MANIFEST.json").exists()


@pytest.mark.parametrize("wait", [True, False])
@pytest.mark.parametrize("end", ["finish", "leave"])
def test_a_script_whose_last_save_failed_does_not_end_well(end: str, wait: bool, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run/checkpoints").touch()
    done = alone(f"rt.save(1, {{}}, wait={wait}); rt.{end}()", tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    assert done.stderr.startswith("error: step 1 was not saved: "), done.stderr


def test_a_tensor_as_validation_loss_decides_which_checkpoint_is_the_best(tmp_path: Path) -> None:
    save = "[rt.save(step, {}, val_loss=torch.tensor(loss)) for step, loss in ((1, 0.5), (2, 0.25), (3, 0.75))]"
    done = alone(f"import torch; print({save}); rt.finish()", tmp_path)
    assert done.returncode == 0 and "[True, True, True]" in done.stdout, done.stdout + done.stderr
    assert (tmp_path / "run/checkpoints/best").resolve().name == "step_00000002"


def test_the_metrics_of_a_script_are_written_as_those_of_the_trainer_by_default() -> None:
    metrics = yaml.safe_load((Path(__file__).parents[2] / "conf" / "config.yaml").read_text())["metrics"]
    assert (metrics["flush_s"], metrics["max_mib"] * 2**20) == (script.FLUSH_S, script.FILE_BYTES)
