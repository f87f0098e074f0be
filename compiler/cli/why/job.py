"""The job that `jobc why` explains, compiled from overrides or from an artifact directory."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....runtime.system.frozen_dataclass import dataclass
from ...artifacts.diff import parse_job_record
from ...diagnostics.diagnostic import CompileError, Diagnostic
from ...emit.artifact_dir import read_text_with_line_endings
from ...emit.job_json import JOB
from ...emit.source_map import SourceMap
from ..arguments import Arguments

if TYPE_CHECKING:
    from ...artifacts.recompile import RecompiledArtifact


@dataclass(frozen=True)
class ExplainedJob:
    """One compiled job.

    written: path -> lines as jobc compiles them now.
    files:   path -> lines on disk; the same as `written` if the job was compiled only in memory.
    folder:  prefix of printed paths.
    changes: inputs that have changed since the directory was written, one sentence each.
    """

    source_map: SourceMap
    plan: Mapping[str, Any]
    written: Mapping[str, Sequence[str]]
    files: Mapping[str, Sequence[str]]
    folder: str = ""
    changes: tuple[str, ...] = ()

    @cached_property
    def lines_by_key(self) -> dict[str, list[str]]:
        """Return spec key -> `PATH:LINE  text` of every line that depends on it."""
        found: dict[str, list[str]] = {}
        behind: dict[tuple[str, ...], tuple[str, ...]] = {}
        for path, rows in sorted(self.source_map.files.items()):
            for number, (keys, template) in enumerate(rows, 1):
                keys = plan_keys_of_line(keys, template)
                if keys not in behind:
                    behind[keys] = self.source_map.expand_interpolated_keys(self.source_map.spec_keys(keys))
                for key in behind[keys]:
                    found.setdefault(key, []).append(self.format_written_line(path, number))
        return found

    @cached_property
    def current_line_numbers(self) -> dict[str, dict[int | None, tuple[int, bool]]]:
        """Return path -> line number as compiled -> (line number now, whether unchanged), without removed lines."""
        numbers_by_path = {}
        for path, lines in self.files.items():
            written = enumerate(match_lines_to_compiled(self.written.get(path, ()), lines), 1)
            numbers_by_path[path] = {was: (number, is_same) for number, (was, is_same) in written}
        return numbers_by_path

    def format_written_line(self, path: str, was: int) -> str:
        """Return a line that jobc wrote, as it is in the file now."""
        if was not in self.current_line_numbers.get(path, {}):
            return f"{self.folder}{path}  edited: a line that depended on it was removed"
        number, is_same = self.current_line_numbers[path][was]
        line = f"{self.folder}{path}:{number}  {self.files[path][number - 1].strip()}".rstrip()
        return line + ("" if is_same else "  (edited after the compile)")


def match_lines_to_compiled(written: Sequence[str], now: Sequence[str]) -> list[tuple[int | None, bool]]:
    """Return, for each line on disk, the number of its compiled line and whether the line is unchanged.

    An edited line has the number of the line that it replaced; an added line has None.
    """
    if list(now) == list(written):
        return [(number, True) for number in range(1, len(now) + 1)]
    from ...emit.line_diff import diff_opcodes

    matches: list[tuple[int | None, bool]] = []
    for kind, a, a_end, b, b_end in diff_opcodes(written, now):
        stands_for = kind == "equal" or (kind == "replace" and a_end - a == b_end - b)
        matches += [(a + n + 1 if stands_for else None, kind == "equal") for n in range(b_end - b)]
    return matches


def plan_keys_of_line(keys: tuple[str, ...], template: str) -> tuple[str, ...]:
    """Return a line's plan keys. The backend's name is the selected group, not a spec field."""
    return ("spec.backend",) if template in ("data at backend", "data at backend.name") else keys


def split_into_lines(text: str) -> list[str]:
    lines = text.split("\n")
    return lines[:-1] if not lines[-1] else lines


def job_from_overrides(words: tuple[str, ...], arguments: Arguments) -> ExplainedJob:
    from ...pipeline.compile import compile_job
    from ..compiling import build_request

    compiled = compile_job(build_request(replace(arguments, words=words)))
    lines = {artifact.path: split_into_lines(artifact.text) for artifact in compiled.artifacts}
    return ExplainedJob(compiled.source_map, _parse_plan("\n".join(lines[JOB])), lines, lines)


def job_from_artifact(folder: Path, arguments: Arguments, shown: str = "") -> ExplainedJob:
    """Compile an artifact directory again. Raises CompileError JC5004 with the reasons if that is not possible."""
    from ...artifacts.recompile import CannotRecompile, find_drift

    again: RecompiledArtifact | None = None
    changes: tuple[str, ...] = ()
    refused: tuple[Diagnostic, ...] = ()
    try:
        input_drift, again = find_drift(folder, arguments.config_dirs)
        changes, refused = (input_drift.causes, input_drift.refused) if input_drift else ((), ())
    except CannotRecompile as error:
        changes = (str(error),)
    if again is None:
        title = f"cannot trace the lines of {folder}, because it cannot be recompiled"
        hint = "run `jobc why` where the job was compiled, with the same --config-dir; or pass the job's overrides"
        raise CompileError([Diagnostic("JC5004", title, "; ".join(changes), hint), *refused])
    existing = {path: folder / path for path in again.texts if (folder / path).is_file()}
    files = {path: split_into_lines(read_text_with_line_endings(file)) for path, file in existing.items()}
    written = {path: split_into_lines(text) for path, text in again.texts.items()}
    return ExplainedJob(again.source_map, _parse_plan(again.texts[JOB]), written, files, shown, changes)


def _parse_plan(text: str) -> dict[str, Any]:
    """Return the plan in a job.json. In a sweep directory, this is the plan of the first point."""
    return parse_job_record(json.loads(text), "plan")
