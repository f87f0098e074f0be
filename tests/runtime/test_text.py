"""Arbitrary text in names, values, arguments and folder names reaches the program byte for byte."""

from __future__ import annotations

import sys

import pytest

from .conftest import AS_ROOT, MPIRUN, PROGRAM

NASTY = (
    "", " ", "-", "--", "--signal=1", "it's", 'say "hi"', "$HOME $$ ${local_rank} $$$", "`id`", "$(id)", "a\nb\n", "\\",
    "*", "a&b|c;d>e", "~", "{a,b}", "!x", "\ue000\U000f0000", "日本 é", "#x", "\t", "%s%%", ":",
)  # fmt: skip


@pytest.mark.parametrize("launcher", ["spawn", pytest.param("torchrun", marks=pytest.mark.engine), MPIRUN])
def test_arguments_and_environment_arrive_byte_for_byte(job, tmp_path, launcher):
    folder = tmp_path / 'it\'s a $HOME `folder` "x" [1]'
    env = {f"TEXT_{number}": text for number, text in enumerate(NASTY)} | AS_ROOT
    demo = job(folder, launcher=launcher, env=env, command=("python3", str(PROGRAM), "record", *NASTY))
    code, output = demo.run("submit")
    assert code == 0, output
    for rank in "01":
        arguments, rest = demo.mark(f"record.{rank}").split("\0--\0/", 1)
        assert tuple(arguments.split("\0")) == ("record", *NASTY)
        values = dict(item.split("=", 1) for item in rest.split("\0")[1:])
        assert {name: values[name] for name in env} == env
        assert values["JOBC_JOB_NAME"] == "demo" and values["WORLD_SIZE"] == "2" and values["RANK"] == rank


def test_python3_at_the_start_is_the_python_of_the_job(job):
    demo = job(
        command=("python3", "-c", "import os, sys; open(os.environ['MARKS'] + '/py', 'w').write(sys.executable)")
    )
    assert demo.run("submit")[0] == 0
    assert demo.mark("py") == sys.executable


def test_the_trainer_of_the_artifact_is_found_before_any_other(job, tmp_path):
    other = tmp_path / "other" / "jobc_trainer"
    other.mkdir(parents=True)
    (other / "__init__.py").write_text("raise SystemExit('the wrong one')")
    demo = job(command=("python3", "-c", "import jobc_trainer"))
    assert demo.run("submit", PYTHONPATH=str(other.parent))[0] == 0


def test_modules_in_the_code_folder_cannot_hide_those_of_the_supervisor(job, tmp_path):
    for name in ("signal", "select", "rank", "exit_codes", "fcntl", "ctypes"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('shadowed')")
    demo = job(command=("/bin/true",))
    assert demo.run("submit", PYTHONPATH=str(tmp_path))[0] == 0
