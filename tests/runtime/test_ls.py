"""jobc ls: runs of all jobs from their folders. No engine is asked and nothing is started."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from jobc.compiler.cli import run_list
from jobc.compiler.cli.ls import list_runs_of_all_jobs
from jobc.compiler.cli.recorded_engine import recorded_engine
from jobc.compiler.cli.run_list import find_runs, format_run_table
from jobc.runtime.run_folder.run import Run
from jobc.runtime.system.failure import Failure
from jobc.runtime.verbs.run_rows import DiskUse, RunRow, format_age, format_size, make_run_row, measure_disk_use

from .sample_runs import make_run, node

ENDED = {"ended": 5, "attempt": 0}
METRICS = '{"step": 8, "loss": 2.00004}\n'


def job_file(backend: str = "local", nodes: int = 1) -> dict[str, str]:
    return {"artifact__0__.jobc__job.json": json.dumps({"job": "demo", "backend": backend, "nodes": nodes})}


def listed(capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, Any]]:
    assert list_runs_of_all_jobs([*words, "--format", "json"], []) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == 1
    runs: list[dict[str, Any]] = document["runs"]
    return runs


def set_age(run: Run, seconds: float) -> None:
    os.utime(run.path / "artifact", (time.time() - seconds,) * 2)


def test_a_run_has_one_line_with_all_columns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = make_run(tmp_path, state__node_00=node(**ENDED, exit=0), **job_file(), **{"metrics__rank_00.jsonl": METRICS})
    set_age(run, 7300)
    assert list_runs_of_all_jobs([str(tmp_path / "runs")], []) == 0
    heading, line = capsys.readouterr().out.splitlines()
    assert heading.split() == ["NAME", "RUN", "BACKEND", "STATE", "STEP", "LOSS", "AGE", "SIZE"]
    assert line.split()[:-1] == ["demo", "r", "local", "done", "8", "2", "2h"] and line.endswith("K")


def test_the_json_has_the_documented_keys_and_states(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_run(tmp_path, state__node_00=node(**ENDED, exit=0), **job_file())
    (row,) = listed(capsys, str(tmp_path / "runs"))
    page = (Path(run_list.__file__).parents[2] / "docs/reference/ls.md").read_text()
    keys = page.partition("## JSON")[2].partition("## States")[0]
    assert re.findall(r"^\| `(\w+)` +\|", keys, re.MULTILINE) == [*row]
    assert all(f"| `{state}` |" in page for state in run_list.RECORDED_STATES)


@pytest.mark.parametrize(
    ("files", "backend", "nodes", "state"),
    [
        ({}, "local", 1, "not started"),
        ({"state__node_00": node(attempt=0)}, "local", 1, "live"),
        ({"state__node_00": node(attempt=0), "control__STOP": ""}, "local", 1, "stopping"),
        ({"state__node_00": node(**ENDED, exit=0), "control__STOP": ""}, "local", 1, "stopped"),
        ({"state__node_00": node(**ENDED, exit=75)}, "local", 1, "stopped early"),
        ({"state__node_00": node(start_ticks=1, attempt=0)}, "local", 1, "failed"),
        ({"state__job_0": "job_id=7\n"}, "slurm", 2, "submitted"),
        ({"state__job_0": "job_id=7\n", "control__STOP": ""}, "slurm", 2, "stopped"),
        ({"state__job_0": "job_id=7\n", "state__node_00": node(host="away", attempt=0)}, "slurm", 2, "live"),
        ({"state__job_0": "job_id=7\nexit=1\n"}, "slurm", 2, "failed"),
        ({"state__job_0": "uid=7\nexit=0\n"}, "kubernetes", 2, "done"),
        ({"state__mirror": "", "state__node_00": node(**ENDED, exit=0)}, "ssh", 2, "submitted"),
    ],
)
def test_the_state_is_that_of_the_run_folder(
    tmp_path: Path, files: dict[str, str], backend: str, nodes: int, state: str
) -> None:
    run = make_run(tmp_path, **files, **job_file(backend, nodes))
    row = make_run_row(run, recorded_engine)
    assert (row.state.name, row.backend) == (state, backend)
    assert row.state.name in run_list.RECORDED_STATES


def test_a_slurm_run_that_waits_for_its_next_attempt_has_not_failed(tmp_path: Path) -> None:
    files = {"state__job_0": "exit=75\n", "state__job_1": "job_id=8\n", "state__node_00": node(**ENDED, exit=75)}
    run = make_run(tmp_path, **files)
    (run.path / "artifact/1").mkdir()
    assert make_run_row(run, recorded_engine).state.name == "submitted"


def test_the_newest_run_is_first_and_options_select(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number, (job, code) in enumerate([("alpha", 0), ("beta", 1), ("alpine", 0)]):
        run = make_run(tmp_path, f"r{number}", state__node_00=node(**ENDED, exit=code))
        set_age(run, 100 - number)
        (tmp_path / "runs" / job).mkdir()
        run.path.rename(tmp_path / "runs" / job / run.id)
    root = str(tmp_path / "runs")
    assert [row["run"] for row in listed(capsys, root)] == ["r2", "r1", "r0"]
    assert [row["run"] for row in listed(capsys, root, "--limit", "1")] == ["r2"]
    assert [row["run"] for row in listed(capsys, root, "--name", "al*")] == ["r2", "r0"]
    assert [row["run"] for row in listed(capsys, root, "--state", "failed,live")] == ["r1"]
    assert [row["run"] for row in listed(capsys, f"{root}/beta", f"{root}/beta/r1", root, "--limit", "2")] == [
        "r2",
        "r1",
    ]
    make_run(tmp_path, "r3", state__node_00=node(**ENDED, exit=75))
    assert [row["run"] for row in listed(capsys, root, "--state", "preempted")] == ["r3"]
    assert [row["run"] for row in listed(capsys, root, "--state", "stopped early")] == ["r3"]
    assert list_runs_of_all_jobs([root, "--state", "live"], []) == 0
    assert capsys.readouterr().err == f"no matching runs in {root}\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--state", "lost"], "--state lost is invalid: must be one of not started, "),
        (["--limit", "0"], "--limit takes a number of runs"),
        (["--limit"], "--limit needs a value"),
        (["--sort", "x"], "unknown option: --sort"),
        (["missing"], "missing is not a folder"),
        (["a\0b"], "is not a folder"),
    ],
)
def test_a_wrong_option_is_one_message(words: list[str], message: str) -> None:
    with pytest.raises(Failure, match=message):
        list_runs_of_all_jobs(words, [])


def test_folders_that_are_no_runs_are_ignored_or_said_to_be_of_another_layout(tmp_path: Path) -> None:
    runs = tmp_path / "runs/demo"
    (runs / "being_made").mkdir(parents=True)
    (runs / "being_made/.making").touch()
    (runs / "later/state").mkdir(parents=True)
    (runs / "later/state/run").touch()
    (runs / ".removing.removed/artifact").mkdir(parents=True)
    (runs / "tensorboard/events").mkdir(parents=True)
    (runs / "link").symlink_to(runs / "later")
    found = {run.id: run.flaw and run.flaw.name for run in find_runs([tmp_path / "runs"])}
    assert found == {"being_made": "incomplete", "later": "other layout"}


def test_a_job_folder_that_is_a_link_is_listed_once(tmp_path: Path) -> None:
    make_run(tmp_path)
    (tmp_path / "runs/again").symlink_to("demo")
    assert [run.path for run in find_runs([tmp_path / "runs"])] == [tmp_path / "runs/demo/r"]


# ---- size, age and width


def test_the_size_is_that_of_du(tmp_path: Path) -> None:
    run = make_run(tmp_path, logs__node_00=5000 * "x", code__a=9000 * "x", checkpoints__step_1__a=100_000 * "x")
    os.link(run.path / "code/a", run.path / "code/b")
    (run.path / "checkpoints/best").symlink_to("step_1")
    (run.path / "data").symlink_to("/usr")
    printed = subprocess.run(["du", "-s", "-B1", run.path], capture_output=True, text=True, check=True).stdout
    assert measure_disk_use(run.path, 1000) == DiskUse(int(printed.split()[0]), True)


def test_a_size_that_is_not_counted_to_the_end_is_a_lower_bound(tmp_path: Path) -> None:
    run = make_run(tmp_path, **{f"code__{number}": "x" for number in range(50)}, checkpoints__step_1__a=100_000 * "x")
    size = measure_disk_use(run.path, 10)
    assert not size.is_complete and size.bytes >= 100_000, "checkpoints are counted first"
    assert format_size(size).startswith(">")


def test_sizes_and_ages_are_short() -> None:
    sizes = (0, 999, 1000, 5000, 10**6, 10**9, 36 * 2**30, 2**60)
    shown = ["0", "999", "1.0K", "4.9K", "977K", "954M", "36G", "1024P"]
    assert [format_size(DiskUse(size, True)) for size in sizes] == shown
    assert [format_age(age) for age in (-5, 59, 3599, 7200, 86400 * 3, 86400 * 800)] == [
        "0s",
        "59s",
        "59m",
        "2h",
        "3d",
        "2y",
    ]


def test_every_line_fits_80_columns_and_keeps_the_run_id(tmp_path: Path) -> None:
    run = Run(tmp_path / ("long" * 20) / "20260131-120000-1a2b")
    state = run_list.OTHER_LAYOUT
    rows = [RunRow(run, 1.0, state, False, "kubernetes", 0, 10**18 - 1, -1.234e-300), RunRow(run, 0.0, state)]
    lines = format_run_table(rows, 40, time.time())
    assert max(map(len, lines)) <= 80 and all(run.id in line for line in lines[1:])
    assert "BACKEND" not in lines[0] and "~" in lines[1]
    assert "long" * 15 in format_run_table(rows, 200, time.time())[1]


def test_a_thousand_runs_are_a_thousand_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for index in range(1000):
        make_run(tmp_path, f"r{index}", state__node_00=node(**ENDED, exit=0))
    assert list_runs_of_all_jobs([str(tmp_path / "runs")], []) == 0
    assert capsys.readouterr().out.count(" done ") == 1000
