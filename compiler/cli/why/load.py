"""Compile the job that `jobc why` explains, from overrides or from an artifact directory."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...artifacts.diff import read_job_record
from ...diagnostics.diagnostic import CompileError, Diagnostic
from ...emit.artifact_dir import read_text_with_line_endings
from ...emit.job_json import JOB
from ..arguments import Arguments
from .job import ExplainedJob, split_into_lines

if TYPE_CHECKING:
    from ...artifacts.recompile import Recompiled


def job_from_overrides(words: tuple[str, ...], arguments: Arguments) -> ExplainedJob:
    """Compile overrides in memory. Raises CompileError."""
    from ...pipeline.compile import compile_job
    from ..request import build_request

    compiled = compile_job(build_request(replace(arguments, words=words)))
    lines = {artifact.path: split_into_lines(artifact.text) for artifact in compiled.artifacts}
    return ExplainedJob(compiled.source_map, _plan("\n".join(lines[JOB])), lines, lines)


def job_from_artifact(folder: Path, arguments: Arguments, shown: str = "") -> ExplainedJob:
    """Compile an artifact directory again. Raises CompileError JC5004 with the reasons if that is not possible."""
    from ...artifacts.recompile import InputsMissing, find_drift

    again: Recompiled | None = None
    changes: tuple[str, ...] = ()
    refused: tuple[Diagnostic, ...] = ()
    try:
        input_drift, again = find_drift(folder, arguments.config_dirs)
        changes, refused = (input_drift.causes, input_drift.refused) if input_drift else ((), ())
    except InputsMissing as error:
        changes = (str(error),)
    if again is None:
        title = f"cannot trace the lines of {folder}, because it cannot be compiled again"
        hint = "run jobc why where the job was compiled, with the same --config-dir"
        raise CompileError([Diagnostic("JC5004", title, "; ".join(changes), hint), *refused])
    existing = {path: folder / path for path in again.texts if (folder / path).is_file()}
    files = {path: split_into_lines(read_text_with_line_endings(file)) for path, file in existing.items()}
    written = {path: split_into_lines(text) for path, text in again.texts.items()}
    return ExplainedJob(again.source_map, _plan(again.texts[JOB]), written, files, shown, changes)


def _plan(text: str) -> dict[str, Any]:
    """Return the plan in a job.json. In a sweep directory, this is the plan of the first point."""
    return read_job_record(json.loads(text), "plan")
