"""Handle an artifact's packed program, for tests that run it by hand or change its contents."""

from __future__ import annotations

import contextlib
import io
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path

from jobc.compiler.cli import main
from jobc.compiler.pipeline.jobctl_program import EVERYTHING
from jobc.compiler.pipeline.jobctl_program import pack_program as packed_program
from jobc.compiler.plugins.registry import find_plugins


def write_program(folder: Path, uses_trainer: bool = True, backend: str = "") -> Path:
    """Write `jobctl` as in an artifact. uses_trainer: whether the job runs the bundled trainer"""
    program = folder / "jobctl"
    contents = EVERYTHING._replace(trainer=uses_trainer)
    packed = packed_program(contents, find_plugins()[backend].folder if backend else None).content
    program.write_bytes(packed)
    program.chmod(0o755)
    return program


def module_of(program: Path, path: str) -> str:
    """Return a module's text. path: its path in jobctl"""
    with zipfile.ZipFile(program) as archive:
        return archive.read(path).decode()


def change_program(program: Path, modules: Mapping[str, str]) -> None:
    """Replace modules of the program: path in jobctl -> text. Its first line, before the zip file, is kept."""
    line = program.read_bytes().partition(b"PK")[0]
    with zipfile.ZipFile(program) as archive:
        texts = {name: archive.read(name) for name in archive.namelist()}
    texts |= {path: text.encode() for path, text in modules.items()}
    with program.open("wb") as file:
        file.write(line)
        with zipfile.ZipFile(file, "w") as archive:
            for name, text in texts.items():
                archive.writestr(name, text)


def compile_here(folder: Path, *words: str) -> None:
    """Run `jobc WORDS` in `folder`, in this process."""
    before, printed = Path.cwd(), io.StringIO()
    os.chdir(folder)
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            status = main(words)
    finally:
        os.chdir(before)
    assert status == 0, printed.getvalue()
