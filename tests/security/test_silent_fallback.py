"""Kind: a silent fallback to something less safe.

Files that .gitignore keeps out of a repository stay out of a run. If git fails, jobctl submit copies nothing and prints
git's own message. Without a repository, it prints what it copies.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jobc.runtime.code.code_files import code_files
from jobc.runtime.system.failure import Failure
from jobc.tests.runtime.conftest import Job, job  # noqa: F401 - the fixture

Make = Callable[..., Job]
LEAVES_OUT = "artifacts\nruns\nmarks\nstand_ins\n"
NOBODY = 65534


@pytest.fixture
def project(job: Make, tmp_path: Path) -> Job:  # noqa: F811
    """A job with code=snapshot in a repository that ignores .env."""
    (tmp_path / ".gitignore").write_text(f"{LEAVES_OUT}.env\n")
    (tmp_path / ".env").write_text("API_KEY=hunter2\n")
    (tmp_path / "train.py").write_text("")
    git("init", "-q", tmp_path)
    git("-C", tmp_path, "add", "train.py", ".gitignore")
    return job(code_kind="snapshot")


def git(*words: str | Path) -> None:
    subprocess.run(["git", *words], check=True)


def copied(project: Job) -> set[str]:
    """Return the files and links in the copy of the code, except links to the folders that this test needs."""
    code = project.only_run / "code"
    paths = {str(path.relative_to(code)) for path in code.rglob("*") if path.is_file() or path.is_symlink()}
    return paths - set(LEAVES_OUT.split())


def refused(project: Job, **environment: str) -> str:
    """Return what jobctl submit prints when it fails: one error with a hint. No run may be left."""
    code, output = project.run("submit", **environment)
    assert code == 65 and output.count("error:") == 1 and output.count("hint:") == 1, output
    assert project.runs_made() == []
    return output


def stand_in(project: Job, text: str) -> str:
    """Return a PATH on which git is a bash script with this text."""
    folder = project.folder / "stand_ins"
    folder.mkdir()
    (folder / "git").write_text(f"#!/bin/bash\n{text}\n")
    (folder / "git").chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


def path_without_git(project: Job) -> str:
    """Return a PATH with links to all of the caller's programs except git."""
    folder = project.folder / "stand_ins"
    folder.mkdir()
    for name in os.environ["PATH"].split(":"):
        for program in Path(name).glob("*"):
            if not program.name.startswith("git") and not (folder / program.name).exists():
                (folder / program.name).symlink_to(program)
    return str(folder)


def test_a_repository_of_another_user_is_refused_in_gits_words(project: Job) -> None:
    for path in (project.folder, project.folder / ".git"):
        shutil.chown(path, NOBODY)
    output = refused(project, HOME=str(project.folder / "home"))
    assert "dubious ownership" in output


@pytest.mark.parametrize(
    ("path", "content", "words"),
    [
        (".git/index", b"DIRC broken", "index file"),
        (".git/HEAD", b"", "not a git repository"),
        (".git/config", b"[broken", "bad config"),
        ("home/.gitconfig", b"[broken", "bad config"),
    ],
)
def test_a_damaged_repository_or_configuration_is_refused(project: Job, path: str, content: bytes, words: str) -> None:
    (project.folder / path).parent.mkdir(exist_ok=True)
    (project.folder / path).write_bytes(content)
    assert words in refused(project, HOME=str(project.folder / "home"))


def test_a_gitignore_that_git_does_not_read_is_refused(project: Job) -> None:
    (project.folder / ".gitignore").rename(project.folder / "runs.gitignore")
    (project.folder / ".gitignore").symlink_to("runs.gitignore")
    assert "unable to access '.gitignore'" in refused(project)


@pytest.mark.parametrize("place", [".", "sub"])
def test_a_missing_git_is_refused(project: Job, place: str) -> None:
    (project.folder / "sub").mkdir(exist_ok=True)
    project.plan.code.root = place
    project.write_artifact()
    assert "git was not found" in refused(project, PATH=path_without_git(project))


def test_an_empty_git_folder_is_refused(job: Make, tmp_path: Path) -> None:  # noqa: F811
    (tmp_path / ".git").mkdir()
    assert "not a git repository" in refused(job(code_kind="snapshot"))


@pytest.mark.parametrize("failing", ["check-ignore", "--cached", "--others"])
def test_a_git_that_fails_at_any_question_is_refused(project: Job, failing: str) -> None:
    real = shutil.which("git")
    text = f'case " $* " in *" {failing} "*) echo "fatal: out of luck" >&2; exit 128 ;; esac\nexec {real} "$@"'
    assert "fatal: out of luck" in refused(project, PATH=stand_in(project, text))


def test_a_git_that_hangs_is_refused(project: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", stand_in(project, "exec sleep 60"))
    monkeypatch.setattr("jobc.runtime.code.git.TIMEOUT_S", 0.2)
    with pytest.raises(Failure) as refusal:
        code_files(project.folder, [], project.folder)
    assert refusal.value.title.endswith("no response within 0.2 s") and refusal.value.code == 65


def test_a_git_that_cannot_read_jobcignore_is_refused(project: Job) -> None:
    (project.folder / ".jobcignore").write_text("private.key\n")
    (project.folder / "private.key").write_text("hunter2")
    real = shutil.which("git")
    text = f'case " $* " in *.jobcignore*) echo "fatal: out of luck" >&2; exit 128 ;; esac\nexec {real} "$@"'
    assert "fatal: out of luck" in refused(project, PATH=stand_in(project, text))


@pytest.mark.parametrize(
    "variables",
    [
        {"GIT_DIR": "/nonexistent"},
        {"GIT_DIR": "{other}/.git", "GIT_WORK_TREE": "{other}"},
        {"GIT_INDEX_FILE": "{other}/index"},
        {"GIT_CEILING_DIRECTORIES": "{folder}"},
        {"GIT_OBJECT_DIRECTORY": "{other}"},
        {"GIT_LITERAL_PATHSPECS": "1"},
    ],
)
def test_variables_of_another_repository_change_nothing(
    project: Job, tmp_path_factory: pytest.TempPathFactory, variables: dict[str, str]
) -> None:
    other = tmp_path_factory.mktemp("other")
    git("init", "-q", other)
    places = {"other": str(other), "folder": str(project.folder.parent)}
    code, output = project.run("submit", **{name: text.format(**places) for name, text in variables.items()})
    assert code == 0, output
    assert copied(project) == {"train.py", ".gitignore"}


def test_git_variables_without_a_repository_are_refused(job: Make) -> None:  # noqa: F811
    assert "GIT_DIR or GIT_WORK_TREE is set" in refused(job(code_kind="snapshot"), GIT_DIR="/nonexistent")


def test_without_a_repository_what_is_copied_is_printed_and_secrets_stay_out(job: Make, tmp_path: Path) -> None:  # noqa: F811
    files: dict[str, Any] = {
        "train.py": "", "pkg/a.py": "", ".env": "KEY=1", "pkg/.env.local": "KEY=1", ".netrc": "", "keys/id_rsa": "",
        ".gitignore": f"{LEAVES_OUT}private*\n", "private.txt": "hunter2", "lib/.gitignore": "own.key\n",
        "lib/own.key": "hunter2", "lib/.git/HEAD": "ref: x",
    }  # fmt: skip
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    project = job(code_kind="snapshot")
    code, output = project.run("submit")
    assert code == 0, output
    assert copied(project) == {"train.py", "pkg/a.py", ".gitignore", "lib/.gitignore"}
    (line,) = [line for line in output.splitlines() if "not in a git repository" in line]
    assert "copying 4 files" in line and str(tmp_path) in line
    (line,) = [line for line in output.splitlines() if "not copied" in line]
    assert all(name in line for name in (".env", "pkg/.env.local", ".netrc", "keys/id_rsa"))


def test_a_gitignore_without_a_repository_needs_git(job: Make, tmp_path: Path) -> None:  # noqa: F811
    (tmp_path / ".gitignore").write_text("private\n")
    project = job(code_kind="snapshot")
    assert "git is needed to read .gitignore" in refused(project, PATH=path_without_git(project))


def test_a_folder_that_the_repository_above_ignores_is_copied_as_one_without(job: Make, tmp_path: Path) -> None:  # noqa: F811
    git("init", "-q", tmp_path)
    (tmp_path / ".gitignore").write_text("scratch\n")
    folder = tmp_path / "scratch"
    folder.mkdir()
    (folder / ".gitignore").write_text(f"{LEAVES_OUT}private\n")
    (folder / "private").write_text("hunter2")
    (folder / ".env").write_text("KEY=1")
    project = job(folder, code_kind="snapshot")
    code, output = project.run("submit")
    assert code == 0 and "is not in a git repository" in output
    assert copied(project) == {".gitignore"}
