"""Compile the job that `jobc why` explains, from overrides or from an artifact directory."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...artifacts.diff import read_record
from ...diagnostics.diagnostic import CompileError, Diagnostic
from ...emit.artifact_dir import text_of
from ...emit.job_json import JOB
from ..arguments import Arguments
from .job import Job, lines_of

if TYPE_CHECKING:
    from ...artifacts.recompile import Recompiled


def compiled_job(words: tuple[str, ...], arguments: Arguments) -> Job:
    """Compile overrides in memory. Raises CompileError."""
    from ...pipeline.compile import compile_job
    from ..request import request

    compiled = compile_job(request(replace(arguments, words=words)))
    lines = {artifact.path: lines_of(artifact.text) for artifact in compiled.artifacts}
    return Job(compiled.source_map, _plan("\n".join(lines[JOB])), lines, lines)


def written_job(folder: Path, arguments: Arguments, shown: str = "") -> Job:
    """Compile an artifact directory again. CompileError JC5004, with the reasons, if that is not possible."""
    from ...artifacts.recompile import InputsMissing, drift

    again: Recompiled | None = None
    changes: tuple[str, ...] = ()
    refused: tuple[Diagnostic, ...] = ()
    try:
        input_drift, again = drift(folder, arguments.config_dirs)
        changes, refused = (input_drift.causes, input_drift.refused) if input_drift else ((), ())
    except InputsMissing as error:
        changes = (str(error),)
    if again is None:
        title = f"cannot trace the lines of {folder}, because it cannot be compiled again"
        hint = "run jobc why where the job was compiled, with the same --config-dir"
        raise CompileError([Diagnostic("JC5004", title, "; ".join(changes), hint), *refused])
    existing = {path: folder / path for path in again.texts if (folder / path).is_file()}
    files = {path: lines_of(text_of(file)) for path, file in existing.items()}
    written = {path: lines_of(text) for path, text in again.texts.items()}
    return Job(again.source_map, _plan(again.texts[JOB]), written, files, shown, changes)


def _plan(text: str) -> dict[str, Any]:
    """Return the plan in a job.json; for a sweep directory, its first point's plan."""
    return read_record(json.loads(text), "plan")
