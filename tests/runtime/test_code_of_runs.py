"""The code of a run: the snapshot of a checkout or a folder, its limits, and runs whose code or artifact has moved."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

LINKED = {"ignored.bin", "marks"}


def test_the_code_of_a_git_checkout_is_snapshotted_and_what_git_ignores_is_linked(job, tmp_path):
    demo = job(code_kind="snapshot")
    demo.plan.command += ("record",)
    demo.write_artifact()
    for name in ("train.py", "-dash name.py", "new\nline.py", "ignored.bin", "gone.py"):
        (tmp_path / name).write_text(name)
    (tmp_path / ".gitignore").write_text("ignored.bin\nmarks\n")
    git = ["git", "-C", str(tmp_path), "-c", "user.name=x", "-c", "user.email=x@x"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "add", "gone.py", "train.py"], check=True)
    (tmp_path / "gone.py").unlink()
    assert demo.run("submit")[0] == 0
    code = demo.only_run / "code"
    assert {p.name for p in code.iterdir()} == {"train.py", "-dash name.py", "new\nline.py", ".gitignore", *LINKED}
    assert {p.name for p in code.iterdir() if p.is_symlink()} == LINKED
    assert demo.mark("record.0").split("--\0")[1].split("\0")[0] == str(code)
    _, output = demo.run("submit", "--resume", demo.only_run.name)
    assert f"using the code copied at the first start, in {code}; --new-code copies it again" in output


def test_the_code_of_a_plain_folder_is_snapshotted_without_caches_and_runs(job, tmp_path):
    demo = job(code_kind="snapshot")
    for name in ("pkg/a.py", "pkg/__pycache__/a.pyc", ".venv/bin/python"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert demo.run("submit")[0] == 0
    files = {str(p.relative_to(demo.only_run / "code")) for p in (demo.only_run / "code").rglob("*") if p.is_file()}
    assert "pkg/a.py" in files and not any("pycache" in f or "venv" in f or "artifacts" in f for f in files)


@pytest.mark.parametrize(("kind", "folder"), [("shared", "code"), ("snapshot", "project/runs/demo/first/code")])
def test_an_absolute_code_root_is_taken_as_it_is(job, tmp_path, kind, folder):
    (tmp_path / "code").mkdir()
    demo = job(tmp_path / "project", code_kind=kind, code_root=str(tmp_path / "code"))
    demo.plan.command += ("record",)
    demo.write_artifact()
    assert demo.run("submit", "--run-id", "first")[0] == 0
    assert demo.mark("record.0").split("--\0")[1].split("\0")[0] == str(tmp_path / folder)


def test_a_snapshot_is_resumed_when_the_code_is_gone(job, tmp_path):
    (tmp_path / "code").mkdir()
    demo = job(code_kind="snapshot", code_root="code")
    assert demo.run("submit", "--run-id", "first")[0] == 0
    (tmp_path / "code").rmdir()
    assert demo.run("submit", "--resume", "first")[0] == 0


def test_a_moved_artifact_belongs_to_the_folder_it_is_called_in(job, tmp_path, monkeypatch):
    demo = job(tmp_path / "project", code_kind="snapshot")
    demo.plan.command += ("only", "0", "record", "only", "1", "handle", "SIGTERM=75", "mark", "wait")
    demo.write_artifact()
    demo.artifact = shutil.copytree(demo.artifact, tmp_path / "elsewhere" / "moved")
    here = tmp_path / "here"
    here.mkdir()
    (here / "train.py").touch()
    monkeypatch.chdir(here)
    code, output = demo.run("submit", "--run-id", "first", "--detach")
    run = here / "runs" / "demo" / "first"
    assert code == 0 and output.startswith(f"this artifact was moved; its runs are in {run.parent}\n"), output
    demo.wait_for_marks("1", "record.0")
    assert demo.mark("record.0").split("--\0")[1].split("\0")[0] == str(run / "code")
    assert [path.name for path in (run / "code").iterdir()] == ["train.py"]
    for verb in ("status", "logs", "stop"):
        assert demo.run(verb)[0] == 0
    assert demo.run(str(run / "artifact/0/jobctl"), "status")[1].startswith("run first of job demo")
    assert f"jobctl submit --resume {run}\n" in (run / "state/resume").read_text()
    assert demo.run("submit", "--resume", "first", "--detach")[0] == 0
    assert demo.run("stop")[0] == 0

    monkeypatch.chdir("/")
    assert demo.run("status")[1].startswith("error: this artifact was moved, and / is not a project folder\n")
    assert not Path("/runs").exists() and demo.runs_made() == []


@pytest.mark.parametrize("name", ["new\nline", "newline\n"])
def test_a_newline_in_the_name_of_the_project_is_refused_in_one_line(job, tmp_path, name):
    demo = job(tmp_path / name)
    code, output = demo.run("submit")
    assert code == 2 and len(output.splitlines()) == 2, output
    assert output.startswith("error: the folder's name has a control character: '/") and demo.runs_made() == []


def test_too_much_code_is_refused_and_leaves_nothing(job, tmp_path):
    demo = job(code_kind="snapshot")
    with (tmp_path / "weights.bin").open("wb") as file:
        file.truncate(201 * 2**20)
    code, output = demo.run("submit")
    assert code == 65 and "201 MiB, more than the limit of 200 MiB" in output and output.count("error:") == 1
    assert "code.max_size=202MiB" in output
    assert demo.runs_made() == []
    (tmp_path / ".jobcignore").write_text("*.bin\n")
    assert demo.run("submit")[0] == 0
    assert [path.name for path in (demo.only_run / "code").rglob("*") if path.is_file()] == [".jobcignore"]


IGNORED = "*.bin\n/data/\n!keep.bin\n"


@pytest.mark.parametrize("is_repository", [True, False])
def test_what_jobcignore_names_is_not_copied_committed_or_not(job, tmp_path, is_repository):
    for path in (
        "a.py",
        "big.bin",
        "keep.bin",
        "data/x",
        "sub/data/y",
        "sub/weights.pt",
        "sub/it's a \n file",
        "own/z",
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("x")
    (tmp_path / ".jobcignore").write_text(IGNORED)
    (tmp_path / "sub" / ".jobcignore").write_text("*.pt\n")
    (tmp_path / ".gitignore").write_text("artifacts\nruns\nmarks\n")
    if is_repository:
        (tmp_path / ".gitignore").write_text("own\n")
        for words in (["init", "-q"], ["add", "."]):
            subprocess.run(["git", "-C", str(tmp_path), *words], check=True)
    demo = job(code_kind="snapshot")
    assert demo.run("submit")[0] == 0
    code = demo.only_run / "code"
    found = {str(path.relative_to(code)) for path in code.rglob("*") if path.is_file()} - {".gitignore", ".jobcignore"}
    wanted = {"a.py", "keep.bin", "sub/data/y", "sub/it's a \n file", "sub/.jobcignore"}
    assert [path.name for path in code.iterdir() if path.is_symlink()] == (["own"] if is_repository else [])
    assert found == (wanted if is_repository else wanted | {"own/z"})
    assert not list(demo.only_run.glob(".*"))
