"""The files that are the same in every artifact: the packed trainer and the shell library.

Needs Python with torch, and bash; not jobc.
"""

from __future__ import annotations

import io
import zipfile
from functools import cache
from pathlib import Path

from ..emit.artifact import Artifact
from ..plugins.registry import PACKAGE

PROGRAM, SCRIPTS = "jobctl", "lib"  # their paths in an artifact
_TRAINER = PACKAGE / "trainer"
_PACKED = (".py", ".b85", ".txt")


@cache
def library() -> tuple[Artifact, ...]:
    """The packed program and the scripts."""
    packed = _pack({"__main__.py": _TRAINER / "rt/__main__.py", **_modules()})
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


def _pack(files: dict[str, Path]) -> bytes:
    """Build an executable zip file, usable as `python FILE` and on PYTHONPATH. Deterministic."""
    packed = io.BytesIO()
    packed.write(b"#!/usr/bin/env python3\n")
    with zipfile.ZipFile(packed, "a") as archive:
        for name, file in files.items():
            entry = zipfile.ZipInfo(name)  # its default date is 1980-01-01
            entry.external_attr, entry.create_system = 0o644 << 16, 3
            archive.writestr(entry, file.read_bytes(), zipfile.ZIP_DEFLATED, compresslevel=9)
    return packed.getvalue()
