"""JC5012 and JC5013: which entries that git ignores are reported when a job is compiled."""

from __future__ import annotations

import shlex
import subprocess
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from jobc.compiler.cli.ignored_entries import check_ignored_entries
from jobc.compiler.diagnostics.diagnostic import Diagnostic
from jobc.compiler.pipeline.compile import compile_job
from jobc.compiler.pipeline.types import CompiledJob, CompileRequest
from jobc.compiler.plan.launch_plan import Mount
from jobc.compiler.plan.runtime_vars import Concat, RuntimeVar

CLAIM = Mount("claim", "c", "/shared", False)
DATA = Mount("claim", "d", "/data", True)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Repository that ignores data/ and outputs/, which contain files."""
    for name in ("data/x", "outputs/y", "train.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / ".gitignore").write_text("/*/\n*.log\n")
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@cache
def job(backend: str, *words: str) -> CompiledJob:
    return compile_job(CompileRequest((f"backend={backend}", *words), ("train.py",)))


def changed(compiled: CompiledJob, run: dict[str, Any] | None = None, **plan: Any) -> CompiledJob:
    of_run = replace(compiled.plan.run, **(run or {}))
    return replace(compiled, plan=replace(compiled.plan, run=of_run, **plan))


def reported(*compiled: CompiledJob) -> list[Diagnostic]:
    return list(check_ignored_entries(compiled, Path("artifacts")))


def pods() -> CompiledJob:
    return job("kubernetes", "image=a/b:1")


def test_data_that_a_pod_lacks_is_reported_with_a_hint_for_the_backend(project: Path) -> None:
    (project / "run.log").touch()
    (diagnostic,) = reported(pods())
    assert diagnostic.code == "JC5012" and diagnostic.title == "not sent to the nodes: data"
    assert "target: /shared, read_only: false}]' storage.data=/shared/data (the script reads" in diagnostic.hint
    (diagnostic,) = reported(job("skypilot"))
    assert diagnostic.hint.startswith(f"'backend.file_mounts={{/data: \"{project}/data\"}}' storage.data=/data (")


def test_a_name_that_needs_quotes_is_not_put_into_the_settings(project: Path) -> None:
    (project / "data").rename(project / "my 'data'")
    (diagnostic,) = reported(job("skypilot"))
    assert diagnostic.hint.startswith("'backend.file_mounts={/FOLDER: \"FOLDER\"}' storage.data=/FOLDER (")


def test_what_the_hint_appends_to_jobcignore_ends_the_warning(project: Path) -> None:
    (project / "more data").mkdir()
    (project / "more data/x").touch()
    (diagnostic,) = reported(pods())
    assert diagnostic.title == "not sent to the nodes: data, 'more data'"
    subprocess.run(["bash", "-c", diagnostic.hint.rpartition("not needed: ")[2]], check=True)
    assert reported(pods()) == []


@pytest.mark.parametrize(
    ("change", "is_reported"),
    [
        ({"run": {"data": "/data"}}, False),
        ({"mounts": (DATA,)}, False),
        ({"mounts": (replace(DATA, kind="empty"),)}, True),
        ({"mounts": (CLAIM,), "run": {"root": "/shared/runs"}}, True),
        ({"mounts": (CLAIM,), "run": {"root": "/shared/runs"}, "command": ("train.py", "--data=/shared/d")}, False),
    ],
    ids=["storage.data", "a mount for data", "scratch space", "a mount for runs", "data on the mount for runs"],
)
def test_a_job_with_data_of_its_own_is_not_reported(project: Path, change: Any, is_reported: bool) -> None:
    assert bool(reported(changed(pods(), **change))) == is_reported


def test_uploads_count_as_data(project: Path) -> None:
    assert reported(job("skypilot", "backend.file_mounts={/d: '~/d'}")) == []


def test_nothing_is_reported_of_jobc_caches_environments_and_secrets(project: Path) -> None:
    subprocess.run(["rm", "-r", "data"], check=True)
    for name in ("artifacts/x/local/x", "runs/x", "__pycache__/x", ".cache/x", "env/pyvenv.cfg", "my_secrets/x"):
        (project / name).parent.mkdir(parents=True)
        (project / name).touch()
    assert reported(pods()) == []


@pytest.mark.parametrize("code", ["git", "image"])
def test_only_snapshots_are_looked_at(project: Path, code: str) -> None:
    assert reported(changed(pods(), code=replace(pods().plan.code, kind=code))) == []


def test_a_folder_without_a_repository_is_not_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    assert reported(pods()) == []


def points(*words: Any) -> list[CompiledJob]:
    return [changed(job("local"), command=("train.py", *([word] if word else []))) for word in words]


@pytest.mark.parametrize(
    ("words", "is_reported"),
    [
        (("", ""), True),
        (("outputs/a", "outputs/a"), True),
        (("outputs/a", "outputs/b"), False),
        ((Concat(("outputs/", RuntimeVar.RUN_ID)),) * 2, False),
        (("",), False),
    ],
    ids=["no path", "one path", "two paths", "a path for each run", "one point"],
)
def test_an_output_folder_that_all_points_share_is_reported(project: Path, words: Any, is_reported: bool) -> None:
    titles = [diagnostic.title for diagnostic in reported(*points(*words))]
    assert titles == ["all 2 points of the sweep may write to the same outputs"] * is_reported


def test_each_run_has_its_own_output_folder_after_the_hint(project: Path) -> None:
    (diagnostic,) = reported(*points("", ""))
    command = diagnostic.hint.partition(", so that")[0]
    assert shlex.split(command) == ["echo", "/outputs", ">>.jobcignore"]
    subprocess.run(["bash", "-c", command], check=True)
    assert reported(*points("", "")) == []
