"""The working copy: the copy of the user's code in which the ranks run, and its links to what git ignores."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from jobc.runtime.code.snapshot import _CodeCopy, link_ignored

TIMEOUT_S = 90
OUTSIDER = 12345  # a uid without a name: root can write to read-only files
SAVES = """
import os, pathlib
assert pathlib.Path("data/x.txt").read_text() == "42"
saved = pathlib.Path("out/step.txt")
saved.parent.mkdir(exist_ok=True)
step = int(saved.read_text()) + 1 if saved.exists() else 0
saved.write_text(str(step))
pathlib.Path("train.py").touch()
print("step", step)
"""


@pytest.fixture
def repository(tmp_path):
    """Folder of a git repository with a script that reads ignored data and saves to a relative path."""
    write(tmp_path, "train.py", SAVES)
    write(tmp_path, "data/x.txt", "42")
    write(tmp_path, ".gitignore", "/data/\n/marks/\n")
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    return tmp_path


def write(folder: Path, name: str, text: str = "") -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)


def snapshot(job, folder: Path, **changes):
    demo = job(folder, code_kind="snapshot", **changes)
    demo.plan.command = (sys.executable, "train.py")
    demo.plan.topology.procs = demo.plan.topology.world_size = 1
    demo.write_artifact()
    return demo


def test_a_script_saves_to_a_relative_path_and_the_next_attempt_reads_it(job, repository):
    demo = snapshot(job, repository)
    code, output = demo.run("submit")
    assert code == 0 and "step 0" in output, output
    assert "code: symlinked, so shared by all runs: data, marks\n" in output
    # out/step.txt, and train.py, which the script touched
    size = len(SAVES) + len("0")
    assert (
        f"jobc: script wrote 2 files ({size} B) in {demo.only_run}/code: train.py, out/step.txt\njobc: exit 0" in output
    )
    code, output = demo.run("submit", "--resume", demo.only_run.name)
    assert code == 0 and "step 1" in output and "symlinked" not in output, output
    assert (demo.only_run / "code/out/step.txt").read_text() == "1" and not (repository / "out").exists()


def test_the_copy_is_writable_for_a_user_who_is_not_root(job, repository):
    demo = snapshot(job, repository)
    (repository / "train.py").chmod(0o444)
    assert demo.run("submit")[0] == 0
    code = demo.only_run / "code"
    subprocess.run(["chown", "-R", f"{OUTSIDER}", str(code)], check=True)
    words = ["setpriv", f"--reuid={OUTSIDER}", "--clear-groups", "bash", "-c", "echo >>train.py && mkdir new"]
    repository_parents = [folder for folder in code.parents if repository in (folder, *folder.parents)]
    for folder in repository_parents:
        folder.chmod(0o755)
    done = subprocess.run(words, cwd=code, capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
    assert done.returncode == 0, done.stderr


def test_caches_environments_and_secrets_are_not_linked(job, repository):
    ignored = {
        "linked": ["weights/w.pt", "tokenizer/t.json", "big.bin"],
        "silent": [
            "__pycache__/a.pyc",
            ".cache/x",
            "node_modules/x",
            "x.egg-info/x",
            "build/x",
            ".env",
            "jobctl_source/x",
        ],
        "left out": ["venv/pyvenv.cfg", "site.pem", "my_secrets/token"],
    }
    (repository / ".gitignore").write_text("/*/\n*.bin\n*.pem\n.env\n")
    for name in (name for names in ignored.values() for name in names):
        write(repository, name)
    demo = snapshot(job, repository)
    code, output = demo.run("submit")
    assert code == 0, output
    links = {path.name for path in (demo.only_run / "code").iterdir() if path.is_symlink()}
    assert links == {"big.bin", "data", "marks", "tokenizer", "weights"}
    lines = [line for line in output.splitlines() if line.startswith("code:")]
    assert lines == [
        "code: symlinked, so shared by all runs: big.bin, data, marks and 2 more",
        "code: not copied (ignored by git): my_secrets, site.pem, venv",
    ]


def test_a_run_folder_in_an_ignored_folder_is_not_linked_into_itself(job, repository):
    write(repository, ".gitignore", "/data/\n/marks/\n/outputs/\n")
    (repository / "outputs").mkdir()
    demo = snapshot(job, repository)
    code, output = demo.run("submit", JOBC_RUN_ROOT=str(repository / "outputs" / "runs"))
    assert code == 0 and "runs: data, marks\ncode: not copied (ignored by git): outputs\n" in output, output


def test_artifacts_and_runs_of_other_projects_are_not_linked(tmp_path):
    files = ("data/a/b", "sub/runs/.gitignore", "sub/runs/job/x/state/run", "sub/made/job/slurm/.jobc/job.json")
    ignored = ["data", "sub/made", "sub/runs", "sub/runs/job"]  # git lists the jobs if .gitignore is in sub/runs
    for name in files:
        write(tmp_path / "project", name)
    run = tmp_path / "runs/job/r"
    (run / "code").mkdir(parents=True)
    copy = _CodeCopy(tmp_path / "project", run / "code", run / "state/code")
    links = link_ignored(copy, ignored, tmp_path / "project", run.parent, is_linked=True)
    assert links == (["data"], [])
    assert [path.name for path in (run / "code").iterdir()] == ["data"]


def test_a_name_with_control_characters_is_escaped(job, repository):
    (repository / ".gitignore").write_text("/data/\n/marks/\n/*x\n")
    write(repository, "\033[2J\nx")
    demo = snapshot(job, repository)
    _, output = demo.run("submit")
    line = next(line for line in output.splitlines() if line.startswith("code:"))
    assert "\033" not in output and r"$'\x1b[2J\nx'" in line, output


def test_nothing_is_printed_when_nothing_is_linked_or_left_out(job, repository):
    write(repository, "train.py", "print('done')\n")
    (repository / "data/x.txt").unlink()
    (repository / "data").rmdir()
    (repository / ".gitignore").write_text("")
    demo = snapshot(job, repository)
    code, output = demo.run("submit")
    assert code == 0 and "code:" not in output, output


def test_removing_a_run_leaves_what_it_links_to(job, repository):
    demo = snapshot(job, repository)
    assert demo.run("submit")[0] == 0
    code, output = demo.run("clean", "--keep", "0", "--yes")
    assert code == 0 and demo.runs_made() == [], output
    assert (repository / "data/x.txt").read_text() == "42"


FAILS_AT_FIRST = """
import pathlib
starts = pathlib.Path("starts.txt")
starts.write_text(starts.read_text() + "x" if starts.exists() else "x")
{}["label_17"]
"""


def test_new_code_is_copied_over_what_the_script_wrote(job, repository):
    write(repository, "train.py", FAILS_AT_FIRST)
    demo = snapshot(job, repository)
    assert demo.run("submit")[0] == 1
    write(repository, "train.py", FAILS_AT_FIRST.replace('{}["label_17"]', 'print("fixed")'))
    code, output = demo.run("submit", "--resume", demo.only_run.name)
    assert code == 1 and "--new-code copies it again" in output, output
    assert "warning: the run ignores what has changed in your code since then: train.py\n" in output
    code, output = demo.run("submit", "--resume", demo.only_run.name, "--new-code")
    assert code == 0 and "fixed" in output, output
    assert (demo.only_run / "code/starts.txt").read_text() == "xxx"
    assert "code: copied again" in (demo.only_run / "state/changes").read_text()
    assert (repository / "data/x.txt").read_text() == "42"  # linked, and not written through the link


def test_new_code_needs_a_run_to_continue(job, repository):
    code, output = snapshot(job, repository).run("submit", "--new-code")
    assert code == 2 and "--new-code needs --resume" in output


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("trian.py", "no script trian.py in"),
        ("src/ignored.py", "the script src/ignored.py is not in the copy of"),
    ],
)
def test_a_script_that_is_not_in_the_copy_is_refused_before_a_run_exists(job, repository, script, reason):
    write(repository, "src/ignored.py")
    write(repository, "src/train.py")
    write(repository, ".gitignore", "src/ignored.py")
    demo = snapshot(job, repository)
    demo.plan.code.script = script
    demo.write_artifact()
    code, output = demo.run("submit")
    assert code == 65 and reason in output, output
    assert not list(repository.glob("runs/*/*"))


def test_git_ignores_a_new_folder_of_runs(job, repository):
    demo = snapshot(job, repository)
    assert demo.run("submit")[0] == 0
    assert (demo.only_run.parent.parent / ".gitignore").read_text() == "*\n"
