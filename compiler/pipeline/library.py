"""jobctl, the packed program of every artifact.

It contains the whole trainer if the bundled trainer runs. For a user's command it contains what such a job can start:
the supervisor, the smoke test and script.py, with their imports.
On the nodes it needs Python with torch, and bash, but not jobc.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from ..emit.artifact import Artifact
from ..plugins.registry import PACKAGE, Plugin

PROGRAM = "jobctl"  # its path in an artifact
ENGINE = "jobc_engine"  # in jobctl
_TRAINER = PACKAGE / "trainer"
_PACKED = (".py", ".b85", ".txt")
_FROM_TRAINER = re.compile(rb"^( *)from (?:\.{3,}|jobc\.)trainer\.", re.MULTILINE)  # packed as jobc_trainer in jobctl
_FOR_A_COMMAND = re.compile(r"rt/|__init__.py|smoke.py|script.py")
# Includes imports in functions. ast.parse() finds the same (tests/compiler/pipeline/test_library.py) in 100 ms.
_IMPORT = re.compile(r"^ *from (\.+)([\w.]*) import (\([^)]*\)|.*)", re.MULTILINE)


def program(uses_trainer: bool, plugin: Plugin | None = None) -> Artifact:
    """Return the packed program."""
    return _program(uses_trainer, plugin.folder if plugin is not None else None)


@cache
def _program(uses_trainer: bool, backend: Path | None) -> Artifact:
    files = {"__main__.py": _TRAINER / "rt/__main__.py"}
    files |= {f"jobc_trainer/{path}": file for path, file in packed_files(uses_trainer).items()}
    texts = {name: file.read_bytes() for name, file in files.items()}
    if backend is not None:
        texts |= _engine(backend)
    packed = _pack(texts)
    return Artifact(PROGRAM, packed.decode("utf-8", "replace"), executable=True, binary=packed)


def _engine(backend: Path) -> dict[str, bytes]:
    """Return the backend's engine.py, or the modules of its engine/, as the module or package jobc_engine."""
    files = {f"{ENGINE}.py": backend / "engine.py"}
    if (backend / "engine").is_dir():
        files = {f"{ENGINE}/{file.name}": file for file in sorted((backend / "engine").glob("*.py"))}
    return {
        path: _FROM_TRAINER.sub(rb"\1from jobc_trainer.", file.read_bytes())
        for path, file in files.items()
        if file.is_file()
    }


def packed_files(uses_trainer: bool) -> dict[str, Path]:
    """Return the files of the trainer to pack, by their paths in its folder, which use slashes."""
    found = {file.relative_to(_TRAINER).as_posix(): file for file in _TRAINER.rglob("*") if file.suffix in _PACKED}
    files = {path: found[path] for path in sorted(found) if "__pycache__" not in path}
    return files if uses_trainer else _with_imports(files, [path for path in files if _FOR_A_COMMAND.match(path)])


def _with_imports(files: Mapping[str, Path], unread: list[str]) -> dict[str, Path]:
    """Return the modules in `unread`, which is emptied, and everything that they import."""
    needed: set[str] = set()
    while unread:
        path = unread.pop()
        if path in files and path not in needed:
            needed.add(path)
            unread += [f"{path.rpartition('/')[0]}/__init__.py", *_imports(path, files[path])]
    return {path: file for path, file in files.items() if path in needed}


def _imports(path: str, file: Path) -> Iterator[str]:
    """Yield paths that `from ..package.module import name` may mean: the module, the package, or a module `name`."""
    for dots, module, names in _IMPORT.findall(file.read_text(encoding="utf-8")):
        base = "/".join([*path.split("/")[: -len(dots)], *filter(None, module.split("."))])
        yield from (f"{base}.py", f"{base}/__init__.py", *(f"{base}/{name}.py" for name in re.findall(r"\w+", names)))


def _pack(files: dict[str, bytes]) -> bytes:
    """Build an executable zip file, usable as `python FILE` and on PYTHONPATH. Deterministic."""
    packed = io.BytesIO()
    packed.write(b"#!/usr/bin/env python3\n")
    with zipfile.ZipFile(packed, "a") as archive:
        for name, text in files.items():
            entry = zipfile.ZipInfo(name)  # its default date is 1980-01-01
            entry.external_attr, entry.create_system = 0o644 << 16, 3
            archive.writestr(entry, text, zipfile.ZIP_DEFLATED, compresslevel=9)
    return packed.getvalue()
