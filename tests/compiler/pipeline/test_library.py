"""Which modules of the trainer are packed into jobctl: all for the bundled trainer, what they can use for others."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

from jobc.compiler.pipeline.library import packed_files
from jobc.tests.packed import write_program

FOR_A_COMMAND = packed_files(uses_trainer=False)


def imports(path: str, text: str) -> set[str]:
    """Paths that relative imports of a module may mean, by the parser of Python, in functions too."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = Path(path).parents[node.level - 1].joinpath(*(node.module or "").split("."))
            found |= {f"{base}.py", f"{base}/__init__.py", *(f"{base}/{alias.name}.py" for alias in node.names)}
    return found


def test_a_command_gets_the_supervisor_the_smoke_test_and_the_script_module_and_what_they_import() -> None:
    every = packed_files(uses_trainer=True)
    needed = {path for path in every if path.startswith("rt/") or path in ("smoke.py", "script.py", "__init__.py")}
    while more := {p for path in needed for p in imports(path, every[path].read_text()) if p in every} - needed:
        needed |= more
    packages = {f"{Path(path).parent}/__init__.py" for path in needed if "/" in path}
    assert set(FOR_A_COMMAND) == needed | packages


def test_a_command_gets_no_model_no_data_and_no_training_loop() -> None:
    assert {Path(path).suffix for path in FOR_A_COMMAND} == {".py"}
    assert not [path for path, file in FOR_A_COMMAND.items() if "importlib.resources" in file.read_text()]
    left_out = (
        "models/gpt.py",
        "data/digits.py",
        "loop/loop.py",
        "recipe/recipe.py",
        "config/schema.py",
        "__main__.py",
    )
    assert not set(left_out) & set(FOR_A_COMMAND)


def test_every_module_that_is_packed_for_a_command_can_be_imported(tmp_path: Path) -> None:
    names = [path.removesuffix(".py").replace("/", ".") for path in FOR_A_COMMAND if not path.endswith("__.py")]
    program = f"from importlib import import_module\nfor name in {names}: import_module(f'jobc_trainer.{{name}}')"
    environment = {"PYTHONPATH": str(write_program(tmp_path, uses_trainer=False))}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
