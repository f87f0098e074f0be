"""Sweeps: jobctl submit starts the points, status shows all of them. A stand-in for the jobctl of each point."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from jobc.backends.local.engine import LocalEngine
from jobc.compiler.pipeline.compile import write_compiled_job
from jobc.compiler.pipeline.sweeps import compile_sweep, group_points_into_folders
from jobc.compiler.pipeline.types import CompileRequest
from jobc.runtime.engines.artifact_location import Place
from jobc.runtime.engines.new_run import create_run
from jobc.runtime.engines.new_sweep import NewSweep
from jobc.runtime.engines.sweep_engine import SUBMIT, SweepEngine, is_submitting
from jobc.runtime.run_folder.points_file import read_points
from jobc.runtime.run_folder.run import Run
from jobc.runtime.run_folder.stopping import write_stop_mark
from jobc.runtime.system.failure import Failure
from jobc.runtime.verbs import submit_sweep, sweep_points
from jobc.runtime.verbs.submit_sweep import _continue_sweep, point_artifact

# Creates the run of its point as an ended one. Point 1 cannot be started, point 2 fails.
JOBCTL = """#!/usr/bin/env python3
import json, sys
from pathlib import Path
artifact = Path(sys.argv[0]).parent
options = dict(word[2:].split("=") for word in sys.argv[2:4])
number = int(options["point"])
if number == 1:
    sys.exit("error: no such host\\n  hint: x")
point = json.loads((artifact / "points.json").read_text())["points"][number]
run = artifact.parents[3] / point["job"] / (options.get("run-id") or options["resume"])
for name in ("state", "control", "artifact/0/.jobc"):
    (run / name).mkdir(parents=True, exist_ok=True)
(run / "artifact/0/.jobc/job.json").write_text('{"job": "x", "backend": "local", "nodes": 1, "runs": "runs"}')
(run / "state/run").write_text("job=x")
(run / "state/node_00").write_text(f"host=h\\nattempt=0\\nended=5\\nexit={int(number == 2)}\\n"
    f"reason={'NaN loss' * (number == 2)}\\n")
print(f"{'resumed' if 'resume' in options else 'started'} {number}", *sys.argv[4:])
"""


@pytest.fixture
def sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> NewSweep:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(submit_sweep, "LOOK_S", 0.01)
    monkeypatch.setattr(Place, "engine", lambda place: LocalEngine(place.job))
    (folder,), _ = group_points_into_folders(compile_sweep(CompileRequest(("name=s", "seed=0,1,2,3"), ("train.py",))))
    artifact = write_compiled_job(folder, tmp_path / "artifacts")
    (tmp_path / "train.py").write_text("")
    (artifact / "jobctl").write_text(JOBCTL)
    place = Place(artifact)
    engine = LocalEngine(place.job)
    engine.live_every_s = 0
    new = create_run(place, SweepEngine(engine), "a")
    new.write_description("")
    return NewSweep(place, engine, new, read_points(artifact))


@pytest.mark.parametrize("limit", [1, 2, None])
def test_points_are_started_some_at_a_time(
    sweep: NewSweep, limit: int | None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert submit_sweep.start_points(sweep, limit, ["--detach"]) == 1
    said = capsys.readouterr().out
    assert "point 1  seed=1: not started: error: no such host; hint: x\n" in said
    assert f"point 3  seed=3: started, run {sweep.run.path.parents[1]}/s+seed=3/a-3\n" in said
    assert said.count("done (exit 0)\n") == (0 if limit is None else 2)
    assert ("point 2  seed=2: failed (exit 1: crashed)\n" in said) == (limit is not None)
    assert (sweep.run.path / "logs/point_3.log").read_text() == "started 3 --detach\n"
    assert not (sweep.run.path / SUBMIT).exists()


def test_a_stopped_sweep_starts_no_further_point(sweep: NewSweep, capsys: pytest.CaptureFixture[str]) -> None:
    loop = submit_sweep.PointStarter(sweep, 1, [])
    take_ended = loop._collect_ended

    def stop_after_the_first() -> None:
        take_ended()
        write_stop_mark(sweep.run.path)

    loop._collect_ended = stop_after_the_first  # type: ignore[method-assign]
    assert loop.run() == 0 and len(loop.waiting) == 3
    assert SweepEngine(sweep.engine).state(sweep.run).text == "1 done, 3 not started"


def test_a_resumed_sweep_starts_what_was_not_started_and_resumes_what_failed(
    sweep: NewSweep, capsys: pytest.CaptureFixture[str]
) -> None:
    submit_sweep.start_points(sweep, None, [])
    capsys.readouterr()
    waiting = submit_sweep.PointStarter(sweep, 1, []).waiting
    assert [point.point.number for point in waiting] == [1, 2]
    new = _continue_sweep(sweep.place, sweep.engine, "a")
    assert submit_sweep.start_points(NewSweep(sweep.place, sweep.engine, new, sweep.points), 1, []) == 1
    said = capsys.readouterr().out
    assert "2 points, 1 at a time; this command waits until all have ended\n" in said
    assert "point 1  seed=1: not started: error: no such host" in said
    assert "point 0" not in said and "point 2  seed=2: failed" in said
    assert (sweep.run.path / "logs/point_2.log").read_text() == "resumed 2\n"


def test_points_that_were_started_one_by_one_are_found_with_ls(sweep: NewSweep) -> None:
    shutil.rmtree(sweep.run.path)
    with pytest.raises(Failure, match="has no run") as refused:
        sweep.place.choose_run("")
    assert refused.value.hint.endswith("; for points started by sbatch or --point: jobc ls")


def test_status_has_a_row_for_each_point(sweep: NewSweep, capsys: pytest.CaptureFixture[str]) -> None:
    submit_sweep.start_points(sweep, None, [])
    capsys.readouterr()
    assert sweep_points.print_points(SweepEngine(sweep.engine), sweep.run, "json") == 1
    points = json.loads(capsys.readouterr().out)["points"]
    wanted = [("seed=0", "done", 0), ("seed=1", "not started", None), ("seed=2", "failed", 1), ("seed=3", "done", 0)]
    assert [(point["label"], point["state"], point["exit_code"]) for point in points] == wanted
    assert [(point["job"], point["run"]) for point in points] == [(f"s+seed={n}", f"a-{n}") for n in range(4)]
    assert sweep_points.print_points(SweepEngine(sweep.engine), sweep.run, "text") == 1
    table = capsys.readouterr().out
    assert table.startswith("sweep a of s+sweep: 2 done, 1 not started, 1 failed\n    0  seed=0  done (exit 0)\n")
    assert "    2  seed=2  failed (exit 1: crashed)\n       reason: NaN loss\n    3  seed=3  done (exit 0)\n" in table


def test_the_state_of_a_sweep_is_that_of_its_worst_point(sweep: NewSweep) -> None:
    engine = SweepEngine(sweep.engine)
    assert engine.state(sweep.run).name == "not started" and engine.folders_removed_together(sweep.run) == [sweep.run]
    submit_sweep.start_points(sweep, 4, [])
    engine = SweepEngine(sweep.engine)
    state = engine.state(sweep.run)
    assert (state.name, state.exit_code) == ("failed", 1) and len(engine.folders_removed_together(sweep.run)) == 4
    (sweep.run.path / SUBMIT).write_text("")
    assert not is_submitting(sweep.run)


def test_a_run_with_a_damaged_points_json_does_not_hide_others(sweep: NewSweep) -> None:
    copy = sweep.new.artifact
    copy.chmod(0o755)
    (copy / "points.json").unlink()
    engine = SweepEngine(sweep.engine)
    assert engine.state(sweep.run).name == "other layout" and engine.folders_removed_together(sweep.run) == [sweep.run]
    with pytest.raises(Failure, match=r"points\.json"):
        engine.points_of_run(sweep.run)


def test_the_artifact_of_a_point_has_its_runs_beside_those_of_the_sweep(sweep: NewSweep) -> None:
    point = sweep.points.find_point("seed=2")
    with point_artifact(sweep.place, sweep.points, point) as place:
        assert place.job.name == "s+seed=2" and place.job.runs == sweep.run.path.parents[1] / "s+seed=2"
        assert place.project == sweep.place.project and not place.is_sweep and place.own_run is None
        assert "seed: 2" in (place.artifact / "spec.yaml").read_text()
    assert not place.artifact.exists()
    new = sweep.create_point(point)
    assert new.run.path == Path("runs/s+seed=2/a-2").resolve() and (new.artifact / "launch.sh").exists()
    assert new.engine.job.artifact == new.artifact and os.access(new.artifact / "jobctl", os.X_OK)
    assert Run(new.run.path).attempt == 0
