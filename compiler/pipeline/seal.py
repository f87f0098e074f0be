"""Add the files of .jobc/ to an artifact: its path and the manifest."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from ... import __version__
from ..emit import artifact_dir
from ..emit.artifact import Artifact
from ..frontend.compose import (
    read_inputs,
)
from . import common_files
from .types import Request


def recorded_request(request: Request, words: list[str]) -> dict[str, Any]:
    """Return arguments that repeat this compile, without the user's own config folders."""
    return {
        "words": words,
        "command": None if request.command is None else list(request.command),
        "config_name": request.config_name,
        "strict": request.strict,
    }


def seal(
    files: Sequence[Artifact],
    place: str,
    read: Mapping[str, str],
    asked: Mapping[str, Any],
) -> tuple[Artifact, ...]:
    """Return all files of an artifact directory: the emitted files, and .jobc/ with the path and digests.

    read: digests of files named by the spec, such as hosts=@FILE; asked: see recorded_request()
    """
    artifacts = [*files, Artifact(common_files.PLACE, f"{place}\n")]
    artifacts.append(artifact_dir.manifest(artifacts, __version__, {**input_digests(), **read}, asked))
    return tuple(artifacts)


def input_digests() -> dict[str, str]:
    return {source: hashlib.sha256(text.encode()).hexdigest() for source, text in read_inputs().items()}
