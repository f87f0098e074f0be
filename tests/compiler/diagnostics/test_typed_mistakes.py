"""Hints for typing errors and for the spellings of other tools."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest

from jobc.compiler.cli import main


def hint(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The hint of the only diagnostic."""
    assert main(words) != 0
    said = capsys.readouterr().err
    assert said.count("= hint: ") == 1, said
    return said.partition("= hint: ")[2].splitlines()[0]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--backend", "slurm", "--", "a.py"], "backend=slurm"),
        (["--nproc_per_node=2", "--", "a.py"], "procs=2"),
        (["-n", "2", "--", "a.py"], "jobc --help lists the options; your program's own go after --"),
        (["check", "-procs=2"], "procs=2"),
        (["check", "env=A=1"], "env.A=1"),
        (["check", "backend=k8s"], "backend=kubernetes"),
        (["check", "GPUS=2"], "did you mean gpus=2?"),
        (["check", "procs = 2"], "procs=VALUE, without a space before ="),
        (["check", "env.RANK=3"], "remove env.RANK"),
        (["check", "env.WORLD_SIZE=2"], "remove env.WORLD_SIZE; it is nodes x procs"),
        (["check", "env.MASTER_PORT=2345"], "rendezvous.port=2345; remove env.MASTER_PORT"),
        (
            ["check", 'then=[python -c "print(7)"]', "--", "a.py"],
            r"""'then=["python -c \"print(7)\""]' or 'then="[python -c \"print(7)\"]"', if it is text""",
        ),
        (
            ["check", "command=[a.py,lr=${env.LR}]", "env.LR=1"],
            """'command=["a.py","lr=${env.LR}"]' or 'command="[a.py,lr=${env.LR}]"', if it is text""",
        ),
        (["check", "mounts=[{kind: host, source: /c, target: /c}]"], "add read_only: VALUE to item mounts.0"),
    ],
)
def test_the_hint_is_what_was_meant(words: list[str], expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert hint(words, capsys) == expected


@pytest.mark.parametrize(
    "words",
    [
        ["LOG=0", "B=a b", "python", "a.py"],
        ["cd", "src dir", "&&", "python", "a.py", "$X"],
        ["python", "a.py", "|", "tee", "log"],
    ],
)
def test_a_command_that_needs_a_shell_gets_one(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    mended = shlex.split(hint(["check", "--strict", "--", *words], capsys))
    assert main(["check", *mended]) == 0
    assert "JC3015" not in capsys.readouterr().err


def test_the_name_of_a_job_leads_to_its_artifact(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert hint(["submit", "mine"], capsys) == "jobc submit artifacts/hello/local"
    assert main(["name=mine", "--", "true"]) == 0
    capsys.readouterr()
    for words in (["submit", "mine"], ["submit", "other"], ["submit"]):
        assert hint(words, capsys) == "jobc submit artifacts/mine/local"
    assert "neither a run nor an artifact" in (main(["stop", "other"]) and capsys.readouterr().err)
    os.mkdir("empty")
    assert hint(["stop", "empty"], capsys) == "jobc stop artifacts/mine/local"
