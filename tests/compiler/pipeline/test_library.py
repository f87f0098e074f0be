"""Which modules are packed into jobctl: those that a job can need, with everything that they import."""

from __future__ import annotations

import ast
import io
import os
import subprocess
import sys
import zipfile
from collections.abc import Mapping, Set
from functools import cache
from pathlib import Path

import pytest

from jobc.compiler import file_states
from jobc.compiler.pipeline import jobctl_program
from jobc.compiler.pipeline.jobctl_program import (
    EVERYTHING,
    OF_FEATURES,
    ProgramContents,
    find_source_files,
    pack_program,
    pack_program_for_nodes,
    select_modules,
)
from jobc.compiler.pipeline.sweeps import compile_sweep, group_points_into_folders
from jobc.compiler.pipeline.types import CompileRequest, SweepFolder
from jobc.compiler.plugins.registry import find_plugins

OF_A_COMMAND = EVERYTHING._replace(trainer=False)
PARTS = {
    "a command": ProgramContents(),
    "a command with everything": OF_A_COMMAND,
    "the trainer": EVERYTHING,
    "verbs": ProgramContents(nodes=False),
    "nodes": ProgramContents(verbs=False),
    **{f"feature {name}": ProgramContents(features=(name,)) for name in OF_FEATURES},
}
FEATURE_OF = {f"jobc_{path}.py": feature for feature, paths in OF_FEATURES.items() for path in paths}
OPTIONAL = {*FEATURE_OF}
# Modules that import those of a feature in a function, which they call only in jobs that have the feature.
IMPORTERS = {
    "bucket": {"engine/join", "runtime/node/join_attempt"},
    "container": set[str](),
    "fabric": {"runtime/network/network"},
    "git": {"engine/join"},
    "gpus": {
        "runtime/engines/one_machine",
        "runtime/preflight/node_checks",
        "runtime/supervisor/launch",
        "runtime/supervisor/node_output",
        "trainer/dist/process_group",
    },
    "host_copies": {"runtime/engines/hosts_engine"},
    "hosts": {"engine"},
    "mpirun": set[str](),
    "nodes": {"runtime/preflight/node_checks", "runtime/supervisor/launch", "runtime/supervisor/peers"},
    "prefetch": {"runtime/verbs/prefetch"},
    "restarts": {"runtime/supervisor/supervise"},
    "secrets": {"runtime/node/join_attempt", "runtime/node/node"},
    "shared_code": {"runtime/preflight/node_checks"},
    "shared_run": {"engine/join", "engine/node"},
    "snapshot": {"runtime/engines/starting_engine"},
    "srun": {"runtime/ranks/spawn"},
    "steps": {"runtime/supervisor/node_ending"},
    "sweep": {
        "engine/slurm_engine",
        "runtime/engines/artifact_location",
        "runtime/verbs/help",
        "runtime/verbs/logs",
        "runtime/verbs/status",
        "runtime/verbs/stop",
        "runtime/verbs/submit",
    },
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
def test_what_a_module_imports_is_there_unless_only_other_jobs_need_it(part: str, backend: str) -> None:
    packed = select_modules(PARTS[part], find_plugins()[backend].folder)
    missing = missing_imports(packed, select_modules(EVERYTHING, find_plugins()[backend].folder).keys())
    assert {feature for feature, _ in missing}.isdisjoint(PARTS[part].features)
    mistakes = {(feature, path) for feature, path in missing if path not in IMPORTERS.get(feature, ())}
    assert not mistakes, "called only in jobs with the feature? Then name it in IMPORTERS; else import it at the top"
    assert "__main__.py" in packed and {path for path in packed if path.endswith("/__init__.py")}


def missing_imports(packed: Mapping[str, bytes], every: Set[str]) -> set[tuple[str, str]]:
    """Return (feature, module that imports one of its modules) where the feature is not packed. For a module without a
    feature, this is its path.
    """
    return {
        (FEATURE_OF.get(other, other), path.removeprefix("jobc_").removesuffix(".py"))
        for path, text in packed.items()
        if path.endswith(".py")
        for other in (imports(path, text) & every) - packed.keys()
    }


def test_every_named_importer_imports_the_feature() -> None:
    folders = [plugin.folder for plugin in find_plugins().values()]
    parts = [
        (select_modules(ProgramContents(features=features), folder), select_modules(EVERYTHING, folder).keys())
        for folder in folders
        for features in ((), ("nodes",))  # a module of the feature "nodes" imports the feature "fabric"
    ]
    found = {pair for packed, every in parts for pair in missing_imports(packed, every)}
    assert found == {(feature, path) for feature, paths in IMPORTERS.items() for path in paths}


@pytest.mark.parametrize("part", ["a command with everything", "verbs", "nodes"])
def test_the_module_of_each_program_is_there(part: str) -> None:
    from jobc.runtime.__main__ import PROGRAMS, VERBS

    packed = select_modules(PARTS[part], find_plugins()["local"].folder)
    verbs = {f"jobc_runtime/verbs/{name}.py" for name in (*VERBS, "help")}
    programs = {f"jobc_runtime/{folder}/{name}.py" for name, folder in PROGRAMS.items()}
    optional = OPTIONAL | {"jobc_runtime/engines/check_table.py"}
    assert (verbs <= {*packed}) == (part != "nodes")
    assert (programs - optional <= {*packed}) == (part != "verbs")
    assert (programs <= {*packed}) == (part == "a command with everything")
    assert ("jobc_trainer/script.py" in packed) == (part != "verbs")


@pytest.mark.parametrize("feature", OF_FEATURES)
def test_modules_of_a_feature_are_only_in_jobs_that_have_it(feature: str) -> None:
    backends = {"git": "kubernetes", "host_copies": "ssh", "shared_run": "kubernetes", "sweep": "slurm"}
    folder = find_plugins()[backends.get(feature, "local")].folder
    paths = {f"jobc_{path}.py" for path in OF_FEATURES[feature]}
    assert paths.isdisjoint(select_modules(ProgramContents(), folder))
    assert paths <= select_modules(ProgramContents(features=(feature, "nodes")), folder).keys()


@pytest.mark.parametrize(("backend", "features", "are_packed"), [("ssh", (), True), ("slurm", ("hosts",), False)])
def test_a_module_of_a_feature_is_packed_where_something_imports_it(
    backend: str, features: tuple[str, ...], are_packed: bool
) -> None:
    packed = select_modules(ProgramContents(features=features), find_plugins()[backend].folder)
    paths = {f"jobc_{path}.py" for path in OF_FEATURES["hosts"]}
    assert paths & packed.keys() == (paths if are_packed else set())


def test_a_command_gets_no_model_no_data_and_no_training_loop() -> None:
    packed = select_modules(OF_A_COMMAND)
    assert {Path(path).suffix for path in packed} == {".py"}
    assert not [path for path, text in packed.items() if b"importlib.resources" in text]
    left_out = ("models/gpt.py", "data/digits.py", "loop/loop.py", "recipe/recipe.py", "config/schema.py")
    assert {f"jobc_trainer/{path}" for path in left_out} <= find_source_files().keys() - {*packed}


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
    """A value that decides what a single job's jobctl contains does not split a sweep."""
    words = ("backend=local", "procs=1", "gpus=0,1", "code=snapshot,shared")
    (folder,) = group_points_into_folders(compile_sweep(CompileRequest(words, ("train.py",))))[0]
    assert isinstance(folder, SweepFolder) and folder.points == 4


def packed(backend: Path) -> bytes | None:
    pack_program.cache_clear()  # as in a new process
    return pack_program(ProgramContents(nodes=False), backend).binary


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
