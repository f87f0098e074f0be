"""A repeated compile is recognized without composing, unless anything that it depends on has changed."""

from __future__ import annotations

import builtins
import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jobc.compiler import file_states, user_cache
from jobc.compiler.cli import main, skip_unchanged
from jobc.compiler.cli.compiling import check_script
from jobc.compiler.pipeline.compile import compile_job
from jobc.compiler.pipeline.types import CompileRequest
from jobc.compiler.plugins import registry
from jobc.prove import repeats

WORDS = ["name=job", "procs=2", "hosts=@nodes.txt", "backend=ssh", "--", "train.py"]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "project/jobc").mkdir(parents=True)
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.chdir(tmp_path / "project")
    Path("train.py").touch()
    Path("nodes.txt").write_text("node1\n")
    Path("jobc/config.yaml").write_text("time: 1h\n")
    return tmp_path / "project"


@pytest.fixture
def compiled(project: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Compile, and return the output."""
    assert skip_unchanged.compile_and_record(WORDS, lambda: main(WORDS)) == 0
    return capsys.readouterr().out


def test_a_repeat_prints_the_same_and_writes_nothing(compiled: str, capsys: pytest.CaptureFixture[str]) -> None:
    before = os.stat("artifacts/job/ssh").st_ino
    assert skip_unchanged.reprint_if_unchanged(WORDS)
    assert capsys.readouterr() == (compiled, "")
    assert os.stat("artifacts/job/ssh").st_ino == before


def test_the_program_imports_neither_hydra_nor_the_compiler(project: Path) -> None:
    program = (
        "import sys; from jobc.compiler.cli import main; main();"
        "print(sorted({'hydra', 'omegaconf', 'jinja2', 'yaml', 'jobc.compiler.cli.command_line'} & {*sys.modules}))"
    )
    command = [sys.executable, "-c", program, *WORDS]
    first, second = (subprocess.check_output(command, text=True).splitlines() for _ in range(2))
    assert first[0] == second[0] and "hydra" in first[1] and second[1] == "[]"


def test_everything_that_a_compile_reads_is_recorded(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records every path below the test's folder that reaches the operating system, except in the artifact."""
    seen: set[str] = set()

    def watch(module: Any, name: str) -> None:
        call: Callable[..., Any] = getattr(module, name)

        def watched(*arguments: Any, **options: Any) -> Any:
            if arguments and isinstance(arguments[0], (str, os.PathLike)):
                seen.add(os.path.abspath(os.fspath(arguments[0])))
            return call(*arguments, **options)

        monkeypatch.setattr(module, name, watched)

    for name in ("stat", "lstat", "open", "listdir", "scandir", "readlink", "access"):
        watch(os, name)
    watch(builtins, "open")
    assert skip_unchanged.compile_and_record(WORDS, lambda: main(WORDS)) == 0
    record = user_cache.read(skip_unchanged.RECORDS, skip_unchanged.key_of_record(WORDS) or b"")
    monkeypatch.undo()
    asked = {os.path.abspath(project / path) for _, path, _ in json.loads(record or b"")["answers"]}
    above = {str(folder) for path in asked for folder in Path(path).parents}  # os.path.realpath looks at each
    outputs = (str(project / "artifacts/"), str(tmp_path / "home/.cache"))
    inputs = {path for path in seen if path.startswith(str(tmp_path)) and not path.startswith(outputs)}
    assert {str(project / "nodes.txt"), str(project / "jobc/config.yaml")} <= inputs
    assert inputs - asked - above == set()


@pytest.mark.parametrize("seed", range(2))
def test_a_repeat_would_change_nothing(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeats, "CHANGES", 12)
    assert repeats.run(seed, tmp_path)["noticed"] >= 3


def test_a_compile_with_errors_is_not_recorded(project: Path) -> None:
    words = ["procs=0"]
    assert skip_unchanged.compile_and_record(words, lambda: main(words)) == 1
    assert not skip_unchanged.reprint_if_unchanged(words)


def test_warnings_are_printed_again(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["name=job", "code.root=gone", "--", "train.py"]
    assert skip_unchanged.compile_and_record(words, lambda: main(words)) == 0
    printed = capsys.readouterr()
    assert "JC5010" in printed.err
    assert skip_unchanged.reprint_if_unchanged(words) and capsys.readouterr() == printed


def test_a_launcher_added_to_a_script_is_noticed(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["name=job", "procs=2", "--", "bash", "run.sh"]
    Path("run.sh").write_text("python3 train.py\n")
    assert skip_unchanged.compile_and_record(words, lambda: main(words)) == 0
    assert skip_unchanged.reprint_if_unchanged(words) and capsys.readouterr().err == ""
    Path("run.sh").write_text("# torchrun\nexec torchrun --nproc-per-node 2 train.py\n")
    assert not skip_unchanged.reprint_if_unchanged(words)
    assert skip_unchanged.compile_and_record(words, lambda: main(words)) == 0
    assert "warning[JC3001 nested-launcher]: in run.sh, torchrun would run in each" in capsys.readouterr().err


@pytest.mark.parametrize(("text", "reported"), [("srun a.out", 1), ("echo 'torchrun x'", 0), ("x=$((", 0), ("", 0)])
def test_only_commands_of_a_script_are_launchers(project: Path, text: str, reported: int) -> None:
    Path("run.sh").write_text(text)
    compiled = compile_job(CompileRequest(("procs=2",), ("./run.sh",)))
    assert len(check_script(compiled, Path("artifacts"))) == reported


def test_a_full_disk_behind_the_output_is_one_diagnostic(project: Path) -> None:
    command = [sys.executable, "-c", "from jobc.compiler.cli import main; raise SystemExit(main())", *WORDS]
    subprocess.run(command, check=True, capture_output=True)
    full = ["bash", "-c", 'exec "$@" >/dev/full', "bash", *command]
    done = subprocess.run(full, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and done.stderr.startswith("error[JC1001 "), done.stderr
    assert "Traceback" not in done.stderr


def test_the_lock_of_an_editor_is_a_file_like_others(tmp_path: Path) -> None:
    (tmp_path / ".#main.py").symlink_to("someone@somewhere.1:2")
    ((path, *_),) = file_states.list_file_states(tmp_path)
    assert path == str(tmp_path / ".#main.py")


def test_a_plugin_of_hydra_is_not_recorded(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "site/hydra_plugins").mkdir(parents=True)
    monkeypatch.setattr(sys, "path", [*sys.path, str(project / "site")])
    assert skip_unchanged.compile_and_record(WORDS, lambda: main(WORDS)) == 0
    assert not skip_unchanged.reprint_if_unchanged(WORDS)


def test_the_mode_of_the_directory_is_restored(compiled: str) -> None:
    Path("artifacts/job/ssh").chmod(0o777)
    assert not skip_unchanged.reprint_if_unchanged(WORDS)


def test_another_bash_may_find_other_mistakes(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("bin").mkdir()
    monkeypatch.setenv("PATH", f"{project}/bin:{os.environ['PATH']}")
    words = ["name=job", "setup=['ulimit -l unlimited']", "--", "train.py"]
    assert skip_unchanged.compile_and_record(words, lambda: main(words)) == 0
    assert skip_unchanged.reprint_if_unchanged(words)
    Path("bin/bash").write_text("#!/bin/sh\n")
    assert not skip_unchanged.reprint_if_unchanged(words)


def test_a_plugin_of_another_package_is_not_recorded(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = registry.Plugin("lab", "plugin:lab", project, object)
    monkeypatch.setattr(registry, "find_policies", lambda: (policy,))
    assert skip_unchanged.compile_and_record(WORDS, lambda: main(WORDS)) == 0
    assert not skip_unchanged.reprint_if_unchanged(WORDS)


def test_a_change_of_jobc_or_of_a_package_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(skip_unchanged, "_PACKAGE", tmp_path / "jobc")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site"), "gone"])
    for folder in (
        *(f"jobc/{name}" for name in skip_unchanged._OWN_FOLDERS),
        "jobc/compiler/cli",
        "site/hydra-1.dist-info",
    ):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
    states = [skip_unchanged.installed_code_state()]
    (tmp_path / "jobc/compiler/cli/new.py").write_text("a = 1\n")
    states.append(skip_unchanged.installed_code_state())
    (tmp_path / "jobc/compiler/cli/new.py").write_text("a = 2\n")
    states.append(skip_unchanged.installed_code_state())
    (tmp_path / "site/hydra-1.dist-info").rename(tmp_path / "site/hydra-2.dist-info")
    states.append(skip_unchanged.installed_code_state())
    (tmp_path / "site/hydra-2.dist-info/entry_points.txt").touch()
    states.append(skip_unchanged.installed_code_state())
    assert len({json.dumps(state) for state in states}) == 5


def test_code_that_was_just_changed_is_not_recorded(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(skip_unchanged, "SETTLED_S", 10**10)
    assert skip_unchanged.compile_and_record(WORDS, lambda: main(WORDS)) == 0
    assert not skip_unchanged.reprint_if_unchanged(WORDS)


@pytest.mark.parametrize("content", ["", "[]", "{", '{"code": 1}', '{"answers": [[1]]}', "[" * 100, "\0"])
def test_a_damaged_record_is_ignored(content: str, compiled: str) -> None:
    key = skip_unchanged.key_of_record(WORDS) or b""
    assert user_cache.read(skip_unchanged.RECORDS, key)
    user_cache.write(skip_unchanged.RECORDS, key, content.encode(), 100)
    assert not skip_unchanged.reprint_if_unchanged(WORDS)
    assert skip_unchanged.compile_and_record(WORDS, lambda: main(WORDS)) == 0
    assert skip_unchanged.reprint_if_unchanged(WORDS)


def test_a_record_of_another_user_is_ignored(compiled: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (record,) = (tmp_path / "home/.cache/jobc/compiles").iterdir()
    assert stat.S_IMODE(record.stat().st_mode) == 0o600 and stat.S_IMODE(record.parent.stat().st_mode) == 0o700
    monkeypatch.setattr(os, "geteuid", lambda: record.stat().st_uid + 1)
    assert not skip_unchanged.reprint_if_unchanged(WORDS)


def test_a_cache_that_cannot_be_written_costs_only_the_repeat(project: Path, tmp_path: Path) -> None:
    (tmp_path / "home/.cache").write_text("not a folder")
    assert skip_unchanged.compile_and_record(WORDS, lambda: main(WORDS)) == 0
    assert not skip_unchanged.reprint_if_unchanged(WORDS)


def test_the_oldest_records_are_removed(compiled: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (record,) = (folder := tmp_path / "home/.cache/jobc/compiles").iterdir()
    monkeypatch.setattr(skip_unchanged, "MOST_RECORDS", 10)
    for i in range(10):
        (folder / f"{i}.json").touch()
        os.utime(folder / f"{i}.json", (i, i))
    assert skip_unchanged.compile_and_record(WORDS, lambda: main(WORDS)) == 0
    assert {file.name for file in folder.iterdir()} == {record.name, *(f"{i}.json" for i in range(1, 10))}


def test_a_torn_record_is_ignored(compiled: str, tmp_path: Path) -> None:
    (record,) = (tmp_path / "home/.cache/jobc/compiles").iterdir()
    record.write_bytes(record.read_bytes()[:-1])
    assert not skip_unchanged.reprint_if_unchanged(WORDS)
