"""`jobc ls`: where it looks for runs, and how it reports a mistake. What it prints is in tests/runtime/test_ls.py."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jobc.compiler.cli import main


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("JOBC_RUN_ROOT", raising=False)
    return tmp_path


def make_run(folder: Path) -> None:
    (folder / "artifact/0").mkdir(parents=True)
    (folder / "state").mkdir()
    (folder / "state/run").touch()


def make_artifact(folder: Path, runs: object) -> None:
    (folder / ".jobc").mkdir(parents=True)
    (folder / ".jobc/job.json").write_text(json.dumps({"job": "a", "runs": runs, "place": "a/local"}))


def names(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    assert main(["ls", *words]) == 0
    return sorted(line.split()[1] for line in capsys.readouterr().out.splitlines()[1:])


def test_runs_are_found_in_the_run_roots_of_the_artifacts(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for root in ("runs", "scratch", "chosen"):
        make_run(project / root / "a" / f"in_{root}")
    make_artifact(project / "artifacts/a/local", str(project / "scratch"))
    make_artifact(project / "artifacts/b/local", "s3://bucket/runs")
    make_artifact(project / "artifacts/c/local", ["x"])
    assert names(capsys) == ["in_runs", "in_scratch"]
    assert names(capsys, "artifacts/a/local") == ["in_scratch"]
    assert names(capsys, "chosen", "runs/a/in_runs") == ["in_chosen", "in_runs"]
    monkeypatch.setenv("JOBC_RUN_ROOT", "chosen")
    assert names(capsys) == ["in_chosen"]


def test_a_project_without_runs_is_no_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ls"]) == 0
    assert capsys.readouterr() == ("", "no runs in runs\n")
    assert main(["ls", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"schema": 1, "runs": []}


def test_a_mistake_is_a_diagnostic(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["missing"], ["--state", "lost"], ["--limit", "many"], ["--format", "yaml"], ["--long"]):
        assert main(["ls", *words]) == 1
        assert capsys.readouterr().err.startswith("error[JC1110 usage-error]: ")


def test_help_lists_the_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ls", "--help"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("usage: jobc ls [FOLDER …]") and "--state STATE" in text
