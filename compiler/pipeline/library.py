"""The files that are the same in every artifact: the packed trainer and the shell library.

Needs Python with torch, and bash; not jobc.
"""

from __future__ import annotations

import io
import re
import zipfile
from functools import cache
from pathlib import Path

from ..emit.artifact import Artifact
from ..plugins.registry import PACKAGE, Plugin

PROGRAM, SCRIPTS = "jobctl", "lib"  # their paths in an artifact
_TRAINER = PACKAGE / "trainer"
_PACKED = (".py", ".b85", ".txt")
_FROM_TRAINER = re.compile(rb"^from (?:\.\.\.|jobc\.)trainer\.", re.MULTILINE)  # packed, it is called jobc_trainer


def library(plugin: Plugin | None = None) -> tuple[Artifact, ...]:
    """The packed program, with the engine.py of the backend if it brings one, and the scripts."""
    return _library(plugin.folder if plugin is not None else None)


@cache
def _library(backend: Path | None) -> tuple[Artifact, ...]:
    files = {"__main__.py": _TRAINER / "rt/__main__.py", **_modules()}
    texts = {name: file.read_bytes() for name, file in files.items()}
    if backend is not None and (backend / "engine.py").is_file():
        texts["jobc_engine.py"] = _FROM_TRAINER.sub(rb"from jobc_trainer.", (backend / "engine.py").read_bytes())
    packed = _pack(texts)
    return (
        Artifact(PROGRAM, packed.decode("utf-8", "replace"), executable=True, binary=packed),
        *(
            Artifact(f"{SCRIPTS}/{file.name}", file.read_text(encoding="utf-8"))
            for file in sorted((_TRAINER / "rt").glob("*.sh"))
        ),
    )


def is_library(path: str) -> bool:
    """Is this one of the files that are the same in every artifact?"""
    return path == PROGRAM or path.startswith(f"{SCRIPTS}/")


def _modules() -> dict[str, Path]:
    paths = sorted(file.relative_to(_TRAINER).as_posix() for file in _TRAINER.rglob("*") if file.suffix in _PACKED)
    return {f"jobc_trainer/{path}": _TRAINER / path for path in paths if "__pycache__" not in path}


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
