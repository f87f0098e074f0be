"""Which modules are packed into jobctl: those that a job can need, with everything that they import."""

from __future__ import annotations

import ast
import io
import subprocess
import sys
import zipfile
from functools import cache
from pathlib import Path

import pytest

from jobc.compiler.pipeline.library import (
    EVERYTHING,
    OF_FEATURES,
    Contents,
    modules,
    program,
    program_on_nodes,
    source_files,
)
from jobc.compiler.pipeline.sweeps import compile_sweep, sweep_folders
from jobc.compiler.pipeline.types import Request, SweepFolder
from jobc.compiler.plugins.registry import find_plugins

OF_A_COMMAND = EVERYTHING._replace(trainer=False)
PARTS = {
    "a command": Contents(),
    "a command with everything": OF_A_COMMAND,
    "the trainer": EVERYTHING,
    "verbs": Contents(nodes=False),
    "nodes": Contents(verbs=False),
    **{f"feature {name}": Contents(features=(name,)) for name in OF_FEATURES},
}
OPTIONAL = {f"jobc_{path}.py" for paths in OF_FEATURES.values() for path in paths}


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
def test_what_a_module_imports_is_there_unless_only_other_jobs_need_it(part: str, backend: str) -> None:
    packed = modules(PARTS[part], find_plugins()[backend].folder)
    every = modules(EVERYTHING, find_plugins()[backend].folder)
    lacking = {p for path, text in packed.items() if path.endswith(".py") for p in imports(path, text) if p in every}
    assert lacking - {*packed} <= OPTIONAL
    assert "__main__.py" in packed and {path for path in packed if path.endswith("/__init__.py")}


@pytest.mark.parametrize("part", ["a command with everything", "verbs", "nodes"])
def test_the_module_of_each_program_is_there(part: str) -> None:
    from jobc.runtime.__main__ import PROGRAMS, VERBS

    packed = modules(PARTS[part], find_plugins()["local"].folder)
    verbs = {f"jobc_runtime/verbs/{name}.py" for name in (*VERBS, "help")}
    programs = {f"jobc_runtime/{folder}/{name}.py" for name, folder in PROGRAMS.items()}
    optional = OPTIONAL | {"jobc_runtime/engines/table.py"}
    assert (verbs <= {*packed}) == (part != "nodes")
    assert (programs - optional <= {*packed}) == (part != "verbs")
    assert (programs <= {*packed}) == (part == "a command with everything")
    assert ("jobc_trainer/script.py" in packed) == (part != "verbs")


@pytest.mark.parametrize("feature", OF_FEATURES)
def test_modules_of_a_feature_are_only_in_jobs_that_have_it(feature: str) -> None:
    folder = find_plugins()["slurm" if feature == "sweep" else "local"].folder
    paths = {f"jobc_{path}.py" for path in OF_FEATURES[feature]}
    assert paths.isdisjoint(modules(Contents(), folder))
    assert paths <= modules(Contents(features=(feature,)), folder).keys()


@pytest.mark.parametrize(("backend", "features", "are_packed"), [("ssh", (), True), ("slurm", ("hosts",), False)])
def test_a_module_of_a_feature_is_packed_where_something_imports_it(
    backend: str, features: tuple[str, ...], are_packed: bool
) -> None:
    packed = modules(Contents(features=features), find_plugins()[backend].folder)
    paths = {f"jobc_{path}.py" for path in OF_FEATURES["hosts"]}
    assert paths & packed.keys() == (paths if are_packed else set())


def test_a_command_gets_no_model_no_data_and_no_training_loop() -> None:
    packed = modules(OF_A_COMMAND)
    assert {Path(path).suffix for path in packed} == {".py"}
    assert not [path for path, text in packed.items() if b"importlib.resources" in text]
    left_out = ("models/gpt.py", "data/digits.py", "loop/loop.py", "recipe/recipe.py", "config/schema.py")
    assert {f"jobc_trainer/{path}" for path in left_out} <= source_files().keys() - {*packed}


@pytest.mark.parametrize(
    ("part", "backend"),
    [
        *(("a command", name) for name in find_plugins()),
        *((part, "slurm") for part in PARTS if part.startswith("feature ")),
        ("a command with everything", "slurm"),
        ("verbs", "kubernetes"),
        ("nodes", "kubernetes"),
    ],
)
def test_every_packed_module_can_be_imported(tmp_path: Path, part: str, backend: str) -> None:
    archive = tmp_path / "jobctl"
    contents, folder = PARTS[part], find_plugins()[backend].folder
    packed = program(contents, folder).content if contents.verbs else program_on_nodes(contents, folder)
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
    """A value that decides what a single job's jobctl contains does not split a sweep."""
    words = ("backend=local", "procs=1", "gpus=0,1", "code=snapshot,shared")
    (folder,) = sweep_folders(compile_sweep(Request(words, ("train.py",))))[0]
    assert isinstance(folder, SweepFolder) and folder.points == 4
