"""A sweep's directory expands to the files to which each point compiles alone."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from jobc.compiler.diagnostics.diagnostic import CompileError
from jobc.compiler.emit.job_json import JOB
from jobc.compiler.emit.points_json import PointFiles, points_json_text
from jobc.compiler.pipeline.compile import compile_job, write_compiled_job
from jobc.compiler.pipeline.sweeps import compile_sweep, group_points_into_folders
from jobc.compiler.pipeline.types import CompiledJob, CompileRequest, SweepFolder
from jobc.runtime.run_folder.artifact_copies import copy_read_only
from jobc.runtime.run_folder.points_file import apply_changes, read_points, write_artifact_of_point
from jobc.runtime.system.failure import Failure

BACKENDS = {
    "local": (),
    "ssh": ("hosts=[a,b]", "nodes=2"),
    "pdsh": ("hosts=[a,b]", "nodes=2"),
    "accelerate": ("hosts=[a,b]", "nodes=2"),
    "slurm": ("nodes=2", "backend.array_limit=2"),
    "kubernetes": ("nodes=2", "image=a/b:1"),
    "skypilot": ("nodes=2", "gpus=8", "gpu_type=H100"),
}  # fmt: skip
OWN_SCRIPT = ("train.py", "--lr", "0.1")


def folders(*words: str, command: tuple[str, ...] | None = OWN_SCRIPT) -> list[CompiledJob | SweepFolder]:
    return group_points_into_folders(compile_sweep(CompileRequest(words, command)))[0]


def files(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Content and mode of every file."""
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): (path.read_bytes(), path.stat().st_mode) for path in paths}


def written(folder: SweepFolder | CompiledJob, out: Path) -> Path:
    return write_compiled_job(folder, out)


@pytest.mark.parametrize(
    ("backend", "command"),
    [*((backend, OWN_SCRIPT) for backend in BACKENDS), ("local", None), ("slurm", None), ("kubernetes", None)],
)
def test_each_point_expands_to_what_it_compiles_to_alone(
    backend: str, command: tuple[str, ...] | None, tmp_path: Path
) -> None:
    words = (f"backend={backend}", "name=lr", *BACKENDS[backend], "seed=0,1", "env.TEXT='a b',\"ü $x\"", "time=1h,2h")
    words = (*words[:-1], "time=1h") if backend == "slurm" else words
    compiled = compile_sweep(CompileRequest(words, command))
    ((folder,), _) = group_points_into_folders(compiled)
    assert isinstance(folder, SweepFolder) and folder.points == len(compiled) >= 4
    sweep = written(folder, tmp_path)
    assert len(files(sweep)) <= (9 if backend == "kubernetes" and command is None else 8)
    points = read_points(sweep)
    for job, point in zip(compiled, points.points, strict=True):
        assert job.point is not None
        write_artifact_of_point(sweep, points, point, tmp_path / f"point_{point.number}")
        alone = compile_job(CompileRequest(job.point.words, command))
        assert set(point.overrides) <= set(job.point.words)
        assert files(tmp_path / f"point_{point.number}") == files(written(alone, tmp_path / "alone"))
        assert point.job == alone.plan.run.folder and (point.label == job.where)


def test_points_that_need_other_files_or_nodes_are_in_other_directories() -> None:
    words = ("backend=slurm", "name=s", "seed=0,1", "nodes=2,4")
    assert [folder.place for folder in folders(*words)] == ["s+nodes=2+sweep/slurm", "s+nodes=4+sweep/slurm"]
    words = ("backend=slurm,local", "name=s", "seed=0,1")
    assert [folder.place for folder in folders(*words)] == ["s+sweep/slurm", "s+sweep/local"]
    words = ("backend=slurm", "name=s", "nodes=2,4")
    assert [folder.place for folder in folders(*words)] == ["s+nodes=2/slurm", "s+nodes=4/slurm"]


@pytest.mark.parametrize(
    ("words", "because"),
    [
        (("nodes=2,4",), "differ in --nodes"),
        (("backend.groups=[{command: x}]",), "no job arrays of heterogeneous jobs"),
    ],
)
def test_a_limit_of_several_job_arrays_is_a_warning(words: tuple[str, ...], because: str) -> None:
    request = CompileRequest(("backend=slurm", "name=s", "seed=0,1", "backend.array_limit=1", *words), OWN_SCRIPT)
    _, (warning,) = group_points_into_folders(compile_sweep(request))
    assert warning.code == "JC4308" and because in warning.because


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "is not valid JSON"),
        ("[]", "does not describe"),
        ('{"schema": 1, "lines": {}, "every_point": {}, "points": []}', "does not describe"),
        ('{"lines": {}, "every_point": {}, "points": [{"label": "a", "job": "../a", "overrides": [], "changes": {}}]}',
         "does not describe"),
        ('{"lines": {"a": 1}, "every_point": {}, "points": [{"label": "a", "job": "a", "overrides": [],'
         ' "changes": {"a": {"7": ["x"]}}}]}', "is damaged: point 0, a: line 7 does not exist"),
        ('{"lines": {"a": 1}, "every_point": {}, "points": [{"label": "a", "job": "a", "overrides": [],'
         ' "changes": {"../a": {"1": ["x"]}}}]}', "does not describe"),
    ],
)  # fmt: skip
def test_a_damaged_points_json_is_reported(text: str, problem: str, tmp_path: Path) -> None:
    sweep = tmp_path / "sweep"
    sweep.mkdir()
    (sweep / "a").write_text("one\n")
    (sweep / "points.json").write_text(text)
    with pytest.raises(Failure, match=problem):
        points = read_points(sweep)
        write_artifact_of_point(sweep, points, points.points[0], tmp_path / "point")


def test_an_edited_file_whose_lines_differ_between_points_is_refused(tmp_path: Path) -> None:
    (folder,) = folders("backend=local", "env.A=1,2")
    sweep = written(folder, tmp_path)
    points = read_points(sweep)
    (sweep / "notes.txt").write_text("mine")
    write_artifact_of_point(sweep, points, points.points[1], tmp_path / "one")
    assert (tmp_path / "one/notes.txt").read_text() == "mine" and not (tmp_path / "one/points.json").exists()
    (sweep / "launch.sh").rename(tmp_path / "elsewhere.sh")
    (sweep / "launch.sh").symlink_to(tmp_path / "elsewhere.sh")
    write_artifact_of_point(sweep, points, points.points[1], tmp_path / "linked")
    assert (tmp_path / "linked/launch.sh").read_text() == (tmp_path / "one/launch.sh").read_text()
    assert "export A=1\n" in (tmp_path / "elsewhere.sh").read_text(), "it is not written to"
    (sweep / "launch.sh").write_text("# edited\n" + (sweep / "launch.sh").read_text())
    with pytest.raises(Failure, match=r"launch\.sh was edited"):
        write_artifact_of_point(sweep, points, points.points[1], tmp_path / "two")


def test_a_point_of_a_run_is_written_to_folders_that_its_owner_can_change(tmp_path: Path) -> None:
    """In a copy of read-only folders, a user other than root can write nothing."""
    (folder,) = folders("backend=local", "env.A=1,2")
    copy_read_only(written(folder, tmp_path), tmp_path / "in_run")
    write_artifact_of_point(
        tmp_path / "in_run",
        read_points(tmp_path / "in_run"),
        read_points(tmp_path / "in_run").points[1],
        tmp_path / "point",
    )
    modes = [path.stat().st_mode for path in (tmp_path / "point", tmp_path / "point/.jobc")]
    assert all(mode & stat.S_IWUSR for mode in modes)


def test_applied_changes_give_the_other_text() -> None:
    """Any texts: equal lines, none, many, without a last newline."""
    import json
    import random

    source = random.Random(0)
    for _ in range(300):
        texts = ["".join(source.choices("ab\n", k=source.randrange(12))) for _ in range(4)]
        directory, *points = ({"f": text} for text in texts)
        written_points = [PointFiles("", "j", [], point) for point in points]
        tree = json.loads(points_json_text(directory, written_points))
        first = apply_changes(directory["f"], tree["every_point"].get("f", {}))
        for point, entry in zip(points, tree["points"], strict=True):
            assert apply_changes(first, entry["changes"].get("f", {})) == point["f"], (texts, entry)


def test_changes_that_overlap_are_refused() -> None:
    for changes in ({"2-3": ["x"], "3": ["y"]}, {"0": ["x"]}, {"3-2": []}, {"4": ["x"]}, {"x": []}):
        with pytest.raises(ValueError, match="line"):
            apply_changes("1\n2\n3", changes)


def test_the_inputs_of_a_point_are_the_files_that_it_reads(tmp_path: Path) -> None:
    """In the order of the points, reversed, and for points that share the merged files of an earlier one."""
    (tmp_path / "lab").mkdir()
    for name in ("a", "b"):
        (tmp_path / f"lab/{name}.yaml").write_text(f"# @package _global_\nname: {name}\n")

    def inputs(*words: str) -> list[list[str]]:
        request = CompileRequest(words, OWN_SCRIPT, config_dirs=(("project", tmp_path),))
        made = group_points_into_folders(compile_sweep(request))[0]
        jobs = (file for folder in made for file in folder.artifacts if file.path == JOB)
        return [[*json.loads(job.text)["inputs"]] for job in jobs]

    a, b = ["project:lab/a.yaml"], ["project:lab/b.yaml"]
    assert inputs("+lab=a,b") == [a, b] and inputs("+lab=b,a") == [b, a]
    assert inputs("+lab=a,b", "seed=0,1") == [a, b]
    assert inputs("+lab=a,b,a", "parallel=ddp,fsdp", "env.A=x") == [a, b]


def test_a_comment_in_a_file_of_another_point_allows_nothing(tmp_path: Path) -> None:
    (tmp_path / "lab").mkdir()
    (tmp_path / "lab/b.yaml").write_text("# @package _global_\nname: b\n")
    (tmp_path / "lab/a.yaml").write_text("# jobc: allow it\n# @package _global_\nname: a\n")
    request = CompileRequest(("+lab=a,b",), OWN_SCRIPT, config_dirs=(("project", tmp_path),))
    with pytest.raises(CompileError) as error:
        compile_sweep(request)
    assert [(found.code, found.points) for found in error.value.diagnostics] == [("JC3080", ("+lab=a",))]
