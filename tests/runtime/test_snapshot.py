"""code=snapshot: the copy of the user's code, without a run that starts."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from jobc.runtime.code.snapshot import changed_code, copy_code
from jobc.runtime.run_folder.run import quote_shell_word
from jobc.runtime.system.command_line import run_verb

MIB = 2**20
Take = Callable[..., int]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project without a repository, and beside it a run of it."""
    (tmp_path / "run").mkdir()
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "train.py").write_text("print()\n")
    return folder


@pytest.fixture
def take(project: Path) -> Take:
    """Copy the project's code, as jobctl submit does; return the exit code."""

    def take(script: str = "", is_linked: bool = False, most: int = MIB) -> int:
        folders = {"run": project.parent / "run", "runs": project / "runs/job", "project": project}

        def verb(_: list[str]) -> int:
            copy_code(project, **folders, max_bytes=most, script=script, is_linked=is_linked)
            return 0

        return run_verb(verb, [])

    return take


def copy_of(project: Path) -> Path:
    return project.parent / "run/code"


def names(project: Path) -> list[str]:
    return sorted(str(path.relative_to(copy_of(project))) for path in copy_of(project).rglob("*"))


def git(folder: Path, *words: str) -> None:
    subprocess.run(["git", "-C", str(folder), *words], check=True)


def test_what_has_changed_since_the_copy_is_named(project: Path, take: Take) -> None:
    (project / "other.py").write_text("1\n")
    assert take() == 0
    run = project.parent / "run"
    assert changed_code(project, run) == ""
    os.utime(project / "other.py", (5, 5))
    assert changed_code(project, run) == "", "its content is the same"
    (project / "train.py").write_text("print(1)\n")
    assert changed_code(project, run) == "train.py"


def test_everything_is_copied_but_runs_artifacts_environments_caches_and_secrets(
    project: Path, take: Take, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in (
        "runs/job/1/x",
        "artifacts/a/x",
        ".venv/x",
        "a/__pycache__/x",
        ".git.d/x",
        ".env",
        "a/id_rsa",
        "a/b/c",
    ):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).touch()
    (project / "empty/below").mkdir(parents=True)
    (project / "link").symlink_to("a/b")
    os.mkfifo(project / "fifo")
    assert take() == 0
    wanted = [".git.d", ".git.d/x", "a", "a/b", "a/b/c", "empty", "empty/below", "link", "train.py"]
    assert names(project) == wanted and os.readlink(copy_of(project) / "link") == "a/b"
    said = capsys.readouterr().err.splitlines()
    why = f"because {project} is not in a git repository"
    copied = ".git.d/x, a/b/c, empty/below and 2 more"
    assert re.fullmatch(rf"code: copying 5 files \(\S+ \S*B\), {re.escape(why)}: {copied}", said[0])
    assert said[1].startswith("code: not copied, because the names look like secrets: .env a/id_rsa;")


SECRETS = (
    ".env.production .ENV prod.env server.pem service.key credentials.json secrets.yaml .aws/credentials .aws/config "
    ".pgpass .kube/config .docker/config.json deploy/.ssh/known_hosts id_ed25519.old .netrc Passwords.txt"
)
CODE = "secrets.py credential_store/__init__.py secret_santa.ipynb environment.yaml keys.json .config/x secrets.jsonl"


@pytest.mark.parametrize("is_below", [False, True])
def test_without_a_repository_names_typical_of_secrets_are_not_copied(
    project: Path, take: Take, is_below: bool
) -> None:
    folder = project / "below" if is_below else project
    for name in (*SECRETS.split(), *CODE.split()):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    assert take() == 0
    copied = copy_of(project) / folder.relative_to(project)
    assert [name for name in SECRETS.split() if (copied / name).exists()] == []
    assert [name for name in CODE.split() if not (copied / name).exists()] == []


def test_names_that_are_no_text_and_modes_and_times_are_kept(project: Path, take: Take) -> None:
    name = b"\xff\xfe 'x'\n"
    script = project / "run.sh"
    script.touch(mode=0o555)
    os.utime(script, ns=(1, 1_600_000_000_123_456_789))
    Path(os.fsdecode(os.path.join(os.fsencode(project), name))).touch()
    git(project, "init", "-q")
    assert take() == 0
    assert name in os.listdir(os.fsencode(copy_of(project)))
    status = (copy_of(project) / "run.sh").stat()
    assert status.st_mode & 0o777 == 0o755 and status.st_mtime_ns == 1_600_000_000_123_456_789


def test_a_second_snapshot_keeps_what_the_job_wrote(
    project: Path, take: Take, capsys: pytest.CaptureFixture[str]
) -> None:
    """A checkpoint of the run is not replaced by one that was made in the project since."""
    for name in ("train.py", "config.yaml", "log.txt"):
        (project / name).write_text("old\n")
        os.utime(project / name, (1, 1))
    assert take() == 0
    for name in ("log.txt", "last.pt"):
        (copy_of(project) / name).write_text("of the job\n")
    for attempt in ("second", "third"):
        for name in ("train.py", "log.txt", "last.pt", "new.py"):
            (project / name).write_text(f"{attempt}\n")
        (project / "config.yaml").unlink(missing_ok=True)
        capsys.readouterr()
        assert take() == 0
        texts = {name: (copy_of(project) / name).read_text() for name in names(project)}
        assert texts == {
            "config.yaml": "old\n", "last.pt": "of the job\n", "log.txt": "of the job\n",
            "new.py": f"{attempt}\n", "train.py": f"{attempt}\n",
        }  # fmt: skip
        line = f"code: not overwritten in {copy_of(project)}, because the job changed these files: last.pt, log.txt\n"
        assert line in capsys.readouterr().err


def test_a_second_snapshot_writes_through_no_link(project: Path, take: Take) -> None:
    """Links of the first one lead to the project; others were made by the ranks."""
    git(project, "init", "-q")
    (project / ".gitignore").write_text("/data\n")
    (project / "data").mkdir()
    (project / "data/x").write_text("kept")
    outside = project.parent / "outside"
    outside.mkdir()
    assert take(is_linked=True) == 0
    assert os.readlink(copy_of(project) / "data") == str(project / "data")
    (copy_of(project) / "made").symlink_to(outside)
    (copy_of(project) / "out").write_text("of a rank")
    (project / ".gitignore").write_text("")
    (project / "made").mkdir()
    (project / "made/y").write_text("code")
    assert take(is_linked=True) == 0
    assert (copy_of(project) / "data").is_dir() and not (copy_of(project) / "data").is_symlink()
    assert (copy_of(project) / "made/y").read_text() == "code" and not list(outside.iterdir())
    assert (copy_of(project) / "out").read_text() == "of a rank"


def test_ignored_entries_in_folders_of_code_are_linked(
    project: Path, take: Take, capsys: pytest.CaptureFixture[str]
) -> None:
    """As in nanoGPT, where data/ holds prepare.py and, ignored by `*.bin`, what that has made."""
    ignored = "data/mine/train.bin exp/data/x exp/__pycache__/x exp/.cache/x exp/token.key other/data/x runs/job/1/x"
    for name in ("data/mine/prepare.py", "exp/train.py", "other/train.py", *ignored.split()):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).touch()
    (project / ".gitignore").write_text("*.bin\n/exp/data/\n/other/data/\n__pycache__\n.cache\n*.key\nruns\n")
    (project / ".jobcignore").write_text("/other/data/\n")
    git(project, "init", "-q")
    assert take(is_linked=True) == 0
    links = {str(path.relative_to(copy_of(project))) for path in copy_of(project).rglob("*") if path.is_symlink()}
    assert links == {"data/mine/train.bin", "exp/data"}
    assert capsys.readouterr().err == (
        "code: symlinked, so shared by all runs: data/mine/train…, exp/data\n"
        "code: not copied (ignored by git): exp/token.key\n"
    )
    (project / ".gitignore").write_text("")
    (project / "data/mine/train.bin").write_text("code")
    assert take() == 0
    assert not (copy_of(project) / "data/mine/train.bin").is_symlink()


def test_an_empty_folder_in_jobcignore_is_not_linked(project: Path, take: Take) -> None:
    git(project, "init", "-q")
    for name in (".gitignore", ".jobcignore"):
        (project / name).write_text("/outputs\n")
    (project / "outputs").mkdir()
    assert take(is_linked=True) == 0
    assert "outputs" not in names(project)


def test_ignored_entries_that_nodes_cannot_read_are_reported_as_not_sent(
    project: Path, take: Take, capsys: pytest.CaptureFixture[str]
) -> None:
    git(project, "init", "-q")
    (project / ".gitignore").write_text("/data\n")
    (project / "data").touch()
    assert take(is_linked=False) == 0
    assert capsys.readouterr().err == "code: not sent (ignored by git): data\n"


@pytest.mark.parametrize(
    ("prepare", "script", "code", "why"),
    [
        (
            lambda folder: (folder / "big").write_bytes(b"x" * (2 * MIB)),
            "",
            65,
            "is 2 MiB, more than the limit of 1 MiB",
        ),
        (lambda folder: None, "tain.py", 65, "no script tain.py in"),
        (lambda folder: (folder / ".jobcignore").write_text("train.py"), "train.py", 65, "is not in the"),
    ],
    ids=["too large", "no such script", "an ignored script"],
)
def test_code_that_must_be_changed_first_is_refused(
    project: Path,
    take: Take,
    capsys: pytest.CaptureFixture[str],
    prepare: Callable[[Path], object],
    script: str,
    code: int,
    why: str,
) -> None:
    prepare(project)
    assert take(script) == code
    said = capsys.readouterr().err
    assert why in said and said.count("error:") == said.count("hint:") == 1


def test_a_copy_that_cannot_be_written_is_one_error(
    project: Path, take: Take, capsys: pytest.CaptureFixture[str]
) -> None:
    (copy_of(project) / "train.py").mkdir(parents=True)
    (copy_of(project) / "train.py/x").touch()
    assert take() == 1
    assert f"cannot copy the code to {copy_of(project)}" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text", ["plain", "it's $HOME `id` \\", "\033[2J\n", "\udcff\udcfe", "é日本\u202e'\\\t", "\x9b1m"]
)
def test_a_word_for_a_shell_is_read_back_and_safe_to_print(text: str) -> None:
    word = quote_shell_word(text)
    assert word.isprintable()
    words = ["bash", "-c", f"printf %s {word}"]
    done = subprocess.run(words, stdout=subprocess.PIPE, check=True, env={**os.environ, "LC_ALL": "C.UTF-8"})
    assert done.stdout == os.fsencode(text)
