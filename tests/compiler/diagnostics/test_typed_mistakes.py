"""Hints for typing errors and for the spellings of other tools."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest

from jobc.compiler.cli import main
from jobc.compiler.cli.find_artifacts import find_named_artifacts


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
        (["run", "--epochs", "1"], "-- train.py --epochs 1; or loop.epochs=1 for the bundled trainer"),
        (["run", "--epochs", "1", "--", "a.py"], "pass --epochs 1 to your program, after --"),
        (["run", "--env", "FOO=1", "--", "a.py"], "env.FOO=1"),
        (["run", "--env=FOO", "--", "a.py"], "env.FOO=VALUE"),
        (["--procs"], "procs=VALUE"),
        (["check", "lr=0.1", "--", "a.py"], "pass --lr 0.1 to your program, after --"),
        (["check", "+lr=0.1", "--", "a.py"], "pass --lr 0.1 to your program, after --"),
        (["check", "max_steps=3", "--", "a.py"], "pass --max_steps 3 to your program, after --"),
        (["check", "+lr=0.1"], "did you mean optim.lr?"),
        (["check", "+foo=2", "--", "a.py"], "jobc --help lists the keys; or pass --foo 2 to your program, after --"),
        (
            ["check", "trainer.x=2", "--", "a.py"],
            "jobc --help lists the keys; or pass trainer.x=2 to your program, after --",
        ),
        (["check", "ndoes=2", "--", "a.py"], "did you mean nodes=2?"),
        (["check", "cpus_per_task=8"], "cpus, the number per node (cpus_per_task x procs)"),
        (["check", "python=/usr/bin/python3"], "python.interpreter=/usr/bin/python3"),
        (["check", "python=/opt/my venv/bin/python"], "python=venv python.path='/opt/my venv'"),
        (["check", "python=../venv"], "python=venv python.path=../venv"),
        (["check", "env={A: 1"], "'env={A: 1}' or 'env=\"{A: 1\"', if it is text"),
        (["check", "mounts=[{kind: host"], "'mounts=[{kind: host}]' or 'mounts=\"[{kind: host\"', if it is text"),
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
        (["check", "a/mine.yaml", "--", "train.py"], "--config-dir a --config-name mine"),
        (
            ["check", "backend=pdsh", "hosts=a", "backend.port=22"],
            "remove backend.port=22, or backend=accelerate or backend=ssh",
        ),
        (
            ["check", "mine.yml"],
            "--config-dir . --config-name mine, after you rename the file to mine.yaml",
        ),
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
def test_a_command_that_needs_a_shell_gets_one(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.py").touch()
    mended = shlex.split(hint(["check", "--strict", "--", *words], capsys))
    assert main(["check", *mended]) == 0
    assert "JC3015" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "title", "expected"),
    [
        (["--", "tarin.py"], "no script tarin.py in ", "did you mean train.py?"),
        (["command=[python,eval.py]"], "no script eval.py in ", "did you mean tools/eval.py?"),
        (["--", "other.py"], "no script other.py in ", "check the command; code.root=FOLDER selects another folder"),
        (
            ["python=venv", "--", "train.py"],
            "no Python environment in ",
            "create it with `python3 -m venv .venv`, or set python.path to an existing environment",
        ),
        (["python=venv", "backend=ssh", "hosts=[a]", "--", "train.py"], "", ""),
        (["python=venv", "python.path=tools", "--", "train.py"], "", ""),
        (["--", "train.py"], "", ""),
        (["--", "/shared/train.py"], "", ""),
        (["code=shared", "backend=ssh", "hosts=[a]", "--", "other.py"], "", ""),
    ],
)
def test_check_finds_what_submit_would_miss(
    words: list[str],
    title: str,
    expected: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("train.py", "tools/eval.py", "tools/bin/activate"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).touch()
    assert main(["check", *words]) == bool(title)
    printed = capsys.readouterr().err
    assert f"[JC5014 missing-script]: {title}" in printed if title else printed == ""
    assert expected in printed


def test_several_unknown_keys_are_reported_together(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "+foo=1", "++bar=2", "trainer.x=3"]) == 1
    printed = capsys.readouterr().err
    assert all(f" key {name}\n" in printed or f" group {name}\n" in printed for name in ("foo", "bar", "trainer.x"))
    assert main(["check", "backend=slrum", "backend.partition=x", "+foo=1"]) == 1
    printed = capsys.readouterr().err
    assert "unknown key foo\n" in printed and "backend.partition" not in printed


def test_the_name_of_a_job_leads_to_its_artifact(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert hint(["submit", "mine"], capsys) == "jobc submit artifacts/hello/local"
    assert main(["name=mine", "--", "true"]) == 0
    capsys.readouterr()
    assert find_named_artifacts("submit", ["mine", "--wait"]) == ([tmp_path / "artifacts/mine/local"], ["--wait"])
    for words in (["submit", "other"], ["submit"]):
        assert hint(words, capsys) == "jobc submit artifacts/mine/local"
    assert "neither a run nor an artifact" in (main(["stop", "other"]) and capsys.readouterr().err)
    os.mkdir("empty")
    assert hint(["stop", "empty"], capsys) == "jobc stop artifacts/mine/local"
    assert main(["name=mine", "backend=ssh", "hosts=[a]", "--", "true"]) == 0
    capsys.readouterr()
    assert hint(["submit", "mine"], capsys) == "jobc submit artifacts/mine/local"  # one of two backends
