"""Explain one artifact line (jobc why FILE:LINE) or one spec key."""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ...diagnostics.diagnostic import CompileError, Diagnostic
from ...diagnostics.origin import Origin
from ...emit.artifact import PROGRAM
from ...emit.job_json import JOB
from ...emit.source_map import PACKED, SEAL, SourceMap
from .job import ExplainedJob, match_lines_to_compiled, plan_keys_of_line


def artifact_containing(file: Path) -> Path:
    """Return the artifact directory that contains a file. Raises CompileError JC5004."""
    directory = next((parent for parent in file.absolute().parents if (parent / JOB).is_file()), None)
    if not file.is_file() or directory is None:
        because = f"no parent folder contains {JOB}"
        if not file.is_file():
            because = "the file is not a regular file" if file.exists() else "the file does not exist"
        hint = "specify a line of a file in an artifact directory, such as artifacts/hello/local/launch.sh:1"
        raise CompileError([Diagnostic("JC5004", f"{file} is not part of an artifact", because, hint)])
    return directory


def explain_line(job: ExplainedJob, path: str, place: str, number: int) -> Iterator[str]:
    """Yield the output lines for FILE:LINE, typed as `place`. Raises CompileError JC5006 if the line does not exist."""
    lines = job.files[path]
    if path == PROGRAM:
        yield place
        yield "  packed   jobc's program; unzip -l lists its modules"
        return
    if not 1 <= number <= len(lines):
        name, because = place.rpartition(":")[0], f"the file has {len(lines)} lines"
        hint = f"{name}:{max(len(lines), 1)}"
        raise CompileError([Diagnostic("JC5006", f"{name} has no line {number}", because, hint)])
    yield place
    yield f"  | {lines[number - 1]}"
    for change in job.changes:
        yield f"  changed  since it was compiled: {change}"
    was, is_same = match_lines_to_compiled(job.written.get(path, ()), lines)[number - 1]
    if not is_same:
        yield "  edited   this line was changed after the compile; jobc verify lists the edits"
        if was is None:
            return
        yield f"  replaces line {was} of jobc's file: {job.written[path][was - 1].strip()}"
    elif was != number:
        yield f"  moved    jobc wrote this as line {was}; jobc verify lists the edits"
    assert was is not None
    source_map = job.source_map
    keys, template = source_map.files[path][was - 1]
    if template in (SEAL, PACKED):
        yield "  from     the whole job" if template == SEAL else "  packed   jobc's program for the nodes"
        return
    yield f"  from     {template}"
    keys = plan_keys_of_line(keys, template)
    chosen = source_map.chosen.get(path, ())
    if chosen:
        yield f"  file     this version of {path} is chosen by {', '.join(chosen)}"
    yield f"  plan     {', '.join(keys)}" if keys else "  constant does not depend on any key"
    for key in keys:
        if key in source_map.rules:
            yield f"  rule     {key}: {source_map.rules[key]}"
    for key in source_map.spec_keys((*keys, *chosen)):
        yield from explain_spec_key(source_map, key)


def explain_spec_key(source_map: SourceMap, key: str, explained_keys: set[str] | None = None) -> Iterator[str]:
    """Yield a key's value, its position and why that file is read, then the same for the keys that it refers to."""
    explained_keys = set() if explained_keys is None else explained_keys
    explained_keys.add(key)
    value = source_map.spec.get(key)
    if value is None:
        yield f"  spec     {key}"
        return
    text = "null" if value.value is None else str(value.value)
    if isinstance(value.value, list):
        text = f"[{','.join('null' if item is None else item for item in value.value)}]"
    position = str(value.origin or "default")
    if key == "nodes" and value.origin and value.origin == source_map.spec["hosts"].origin:
        position = f"counted from {value.origin.path} on the {value.origin.root}"
    yield f"  spec     {key} = {text}"
    yield f"           {position}" + (f", written as {value.via}" if value.via else "")
    yield from _explain_option_choice(source_map, value.origin)
    for referenced_key in re.findall(r"\$\{([\w.]+)\}", value.via):
        if referenced_key in source_map.spec and referenced_key not in explained_keys:
            yield from explain_spec_key(source_map, referenced_key, explained_keys)


def _explain_option_choice(source_map: SourceMap, origin: Origin | None) -> Iterator[str]:
    """Yield where the config group option that contains a value was chosen."""
    if origin is None or not origin.line:
        return
    for group, (option, chosen) in source_map.options.items():
        if f"/{origin.path}".endswith(f"/{group}/{option}.yaml"):
            yield f"           read for {group}={option}, chosen {chosen or 'in a defaults list'}"


def plan_key_lines(job: ExplainedJob, keys: Sequence[str]) -> Iterator[str]:
    for key in keys:
        value = f" = {json.dumps(job.plan[key], ensure_ascii=False)}" if key in job.plan else ""
        yield f"  plan     {key}{value}"
        if key in job.source_map.rules:
            yield f"           {job.source_map.rules[key]}"


def format_columns(title: str, rows: Any) -> Iterator[str]:
    for number, row in enumerate(rows):
        yield f"  {'' if number else title:<8} {row}"
