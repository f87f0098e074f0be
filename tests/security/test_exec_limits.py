"""Arguments that Linux passes to no process are rejected at compile time, and those that it just passes are not."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from jobc.compiler.diagnostics.diagnostic import CompileError
from jobc.compiler.pipeline.compile import CompileRequest, compile_job

ONE = 131_072  # bytes of one string, with its NUL


def refused(*words: str, command: tuple[str, ...] | None = None, env: str = "") -> list[tuple[str, str]]:
    """Return (code, key) for each diagnostic. env: lines of a config's section"""
    folder = Path("jobc").absolute()
    (folder / "experiment").mkdir(parents=True, exist_ok=True)
    (folder / "experiment" / "e.yaml").write_text(f"# @package _global_\nenv:\n{env}  A: b\n")
    try:
        compile_job(CompileRequest(("backend=local", "+experiment=e", *words), command, (("project", folder),)))
    except CompileError as error:
        return [(d.code, d.key) for d in error.diagnostics]
    return []


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def starts(argument: str, variable: str) -> bool:
    """Return whether Linux starts a process with them."""
    try:
        environment = {"TEXT": variable, "PATH": "/usr/bin:/bin"}
        return subprocess.run(["true", argument], env=environment, check=False).returncode == 0
    except OSError:
        return False


def test_the_longest_variable_is_the_one_that_linux_passes() -> None:
    for size in (ONE - len("TEXT=") - 1, ONE - len("TEXT=")):
        passed = starts("", "x" * size)
        assert refused(env=f"  TEXT: {'x' * size}\n") == ([] if passed else [("JC2019", "env.TEXT")])


def test_the_longest_word_is_the_one_that_linux_passes() -> None:
    for size in (ONE - 1, ONE):
        passed = starts("x" * size, "")
        assert refused("launcher=spawn", command=("true", "x" * size)) == ([] if passed else [("JC2019", "command")])


def test_bytes_count_and_not_characters() -> None:
    assert refused(env=f"  TEXT: {'é' * (ONE // 2)}\n") == [("JC2019", "env.TEXT")]


def test_a_dollar_counts_twice_where_torchrun_reads_a_template() -> None:
    command = ("true", "$1" * (ONE // 3 + 1))
    assert refused("launcher=spawn", command=command) == []
    assert refused("launcher=torchrun", command=command) == [("JC2019", "command")]


def test_many_words_and_variables_have_a_limit_together() -> None:
    env = "".join(f"  T{i}: {'x' * 100_000}\n" for i in range(10))
    command = ("true", *["x" * 100_000] * 10)
    assert refused("launcher=spawn", env=env) == []
    assert refused("launcher=spawn", command=command) == []
    assert [code for code, _ in refused("launcher=spawn", env=env, command=command)] == ["JC2019"]


def test_mpirun_gets_the_command_and_the_nodes_in_one_string_each() -> None:
    command = ("true", "x" * 70_000, "x" * 70_000)
    assert refused("launcher=spawn", command=command) == []
    assert refused("launcher=mpirun", command=command) == [("JC2019", "command")]
    assert ("JC2019", "launcher") in refused("launcher=mpirun", "nodes=20000", command=("true",))
