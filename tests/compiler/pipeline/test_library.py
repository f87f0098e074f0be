"""Which modules are packed into jobctl: those of its programs, with everything that they import."""

from __future__ import annotations

import ast
import io
import os
import subprocess
import sys
import zipfile
from functools import cache
from pathlib import Path

import pytest

from jobc.compiler import file_states
from jobc.compiler.pipeline import jobctl_program
from jobc.compiler.pipeline.jobctl_program import (
    ProgramContents,
    find_source_files,
    pack_program,
    pack_program_for_nodes,
    select_modules,
)
from jobc.compiler.pipeline.sweeps import compile_sweep, group_points_into_folders
from jobc.compiler.pipeline.types import CompileRequest, SweepFolder
from jobc.compiler.plugins.registry import find_plugins

PARTS = {
    "a command": ProgramContents(trainer=False),
    "the trainer": ProgramContents(trainer=True),
    "verbs": ProgramContents(trainer=False, nodes=False),
    "nodes": ProgramContents(trainer=False, verbs=False),
}


@cache
def imports(path: str, text: bytes) -> set[str]:
    """Paths that the imports of a module may mean, by the parser of Python, in functions too; not for types alone."""
    found = set()
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.level or str(node.module).startswith("jobc_")):
            above = Path(path).parents[node.level - 1] if node.level else Path()
            base = above.joinpath(*(node.module or "").split("."))
            found |= {f"{base}.py", f"{base}/__init__.py", *(f"{base}/{alias.name}.py" for alias in node.names)}
    return found


@pytest.mark.parametrize("backend", find_plugins())
@pytest.mark.parametrize("part", PARTS)
def test_what_a_module_imports_is_there(part: str, backend: str) -> None:
    folder = find_plugins()[backend].folder
    packed, every = select_modules(PARTS[part], folder), select_modules(PARTS["the trainer"], folder).keys()
    missing = {
        (path, other)
        for path, text in packed.items()
        if path.endswith(".py")
        for other in (imports(path, text) & every) - packed.keys()
    }
    assert not missing
    assert "__main__.py" in packed and {path for path in packed if path.endswith("/__init__.py")}


@pytest.mark.parametrize("part", ["a command", "verbs", "nodes"])
def test_the_module_of_each_program_is_there(part: str) -> None:
    from jobc.runtime.__main__ import PROGRAMS, VERBS

    packed = select_modules(PARTS[part], find_plugins()["local"].folder)
    verbs = {f"jobc_runtime/verbs/{name}.py" for name in (*VERBS, "help")}
    programs = {f"jobc_runtime/{folder}/{name}.py" for name, folder in PROGRAMS.items()}
    assert (verbs <= {*packed}) == (part != "nodes")
    assert (programs - {"jobc_runtime/engines/check_table.py"} <= {*packed}) == (part != "verbs")
    assert (programs <= {*packed}) == (part == "a command")
    assert ("jobc_trainer/script.py" in packed) == (part != "verbs")


def test_a_command_gets_no_model_no_data_and_no_training_loop() -> None:
    packed = select_modules(PARTS["a command"])
    assert {Path(path).suffix for path in packed} == {".py"}
    assert not [path for path, text in packed.items() if b"importlib.resources" in text]
    left_out = ("models/gpt.py", "data/digits.py", "loop/loop.py", "recipe/recipe.py", "config/schema.py")
    assert {f"jobc_trainer/{path}" for path in left_out} <= find_source_files().keys() - {*packed}


@pytest.mark.parametrize(
    ("part", "backend"),
    [
        *(("a command", name) for name in find_plugins()),
        ("verbs", "kubernetes"),
        ("nodes", "kubernetes"),
    ],
)
def test_every_packed_module_can_be_imported(tmp_path: Path, part: str, backend: str) -> None:
    archive = tmp_path / "jobctl"
    contents, folder = PARTS[part], find_plugins()[backend].folder
    packed = pack_program(contents, folder).content if contents.verbs else pack_program_for_nodes(contents, folder)
    archive.write_bytes(packed)
    paths = zipfile.ZipFile(io.BytesIO(packed)).namelist()
    modules_ = [path.removesuffix(".py") for path in paths if path.endswith(".py") and not path.endswith("__.py")]
    names = [path.replace("/", ".") for path in modules_]
    if (part, backend) != ("a command", "local"):  # once is enough for the modules that need torch
        names = [name for name in names if not name.startswith("jobc_trainer.")]
    text = f"from importlib import import_module\nfor name in {names}: import_module(name)"
    environment = {"PYTHONPATH": str(archive)}
    done = subprocess.run([sys.executable, "-c", text], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_points_of_a_sweep_share_one_program() -> None:
    words = ("backend=local", "procs=1", "gpus=0,1", "code=snapshot,shared")
    (folder,) = group_points_into_folders(compile_sweep(CompileRequest(words, ("train.py",))))[0]
    assert isinstance(folder, SweepFolder) and folder.points == 4


def packed(backend: Path) -> bytes | None:
    pack_program.cache_clear()  # as in a new process
    return pack_program(PARTS["verbs"], backend).binary


def test_a_program_is_packed_once_for_all_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (backend := tmp_path / "backend").mkdir()
    (engine := backend / "engine.py").write_text("A = 1\n")
    os.utime(engine, (1, 1))
    monkeypatch.setattr(file_states, "SETTLED_S", -10)  # the file was just written
    first = packed(backend)
    (file,) = (tmp_path / "cache/jobc/programs").iterdir()
    with monkeypatch.context() as patch:
        patch.setattr(jobctl_program, "select_modules", None)
        assert packed(backend) == first
    engine.write_text("A = 2\n")
    assert packed(backend) != first
    engine.write_text("A = 1\n")
    file.write_bytes(file.read_bytes()[:-1])
    assert packed(backend) == first


def test_a_program_of_files_that_were_just_changed_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "engine.py").write_text("A = 1\n")
    packed(tmp_path)
    assert not (tmp_path / "cache").exists()
