"""Files of .jobc/ in an artifact: path and manifest."""

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
    """Arguments that repeat this compile, without the config folders, which are the user's own."""
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
    """All files of an artifact directory: the emitted files, and .jobc/ with the path and digests.

    read: digests of the files that the spec names, such as hosts=@FILE; asked: as recorded_request()
    """
    artifacts = [*files, Artifact(common_files.PLACE, f"{place}\n")]
    artifacts.append(artifact_dir.manifest(artifacts, __version__, {**input_digests(), **read}, asked))
    return tuple(artifacts)


def input_digests() -> dict[str, str]:
    return {source: hashlib.sha256(text.encode()).hexdigest() for source, text in read_inputs().items()}
