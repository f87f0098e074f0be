"""jobc diff: compare two jobs, artifacts or runs. Exit codes as in diff(1): 0 if they are the same, 1 if they differ, 2
after an error.

jobc diff DIR DIR               two artifact directories, or two run folders
jobc diff DIR:0 DIR:3           points 0 and 3 of a sweep directory; DIR:N works wherever DIR does
jobc diff DIR                   the written files and a fresh compile of the same command line
jobc diff DIR KEY=VALUE …       the written files and a compile of these overrides
jobc diff KEY=VALUE,VALUE …     the two points of a sweep: nodes=2,4 or backend=slurm,ssh
jobc diff KEY=VALUE … vs KEY=VALUE …      either side may also be a directory
Nothing in a directory is run. For files edited by hand, diff counts the lines that differ.
"""

import contextlib
import dataclasses
import json
import re
import shlex
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ...runtime.run_folder.points_file import POINTS, read_points, write_artifact_of_point
from ...runtime.system.failure import Failure
from ...runtime.system.untrusted_files import Unreadable
from ..artifacts.diff import (
    ABSENT,
    ArtifactComparison,
    ComparedArtifact,
    DamagedRecord,
    KeyChange,
    compare_artifacts,
    without_record_files,
)
from ..artifacts.recompile import is_sweep, parse_recorded_request
from ..diagnostics.diagnostic import CompileError, Diagnostic
from ..emit.artifact_dir import UNSUMMED, find_edited_files, is_executable, read_job, read_text_with_line_endings
from ..emit.job_json import JOB
from ..pipeline.compile import compile_job
from ..pipeline.sweeps import compile_sweep
from ..pipeline.types import CompiledJob
from ..spec.secret_scan import redact_override
from .arguments import Arguments, is_override
from .compiling import build_request
from .find_artifacts import newest_copy, no_artifact_error
from .reporting import OK, progress_printer
from .terminal import print_json, print_lines

DIFFERS = 1
VERSUS = "vs"


def diff_command(arguments: Arguments) -> int:
    try:
        a, b = _load_sides(arguments)
        comparison = compare_artifacts(a, b)
    except (DamagedRecord, Unreadable) as error:
        hint = "compile the job again with --force"
        raise CompileError([Diagnostic("JC5009", "cannot compare these artifacts", str(error), hint)]) from None
    if arguments.format == "json":
        print_json({"a": a.name, "b": b.name, **diff_to_json_object(comparison)})
        return DIFFERS if comparison.differs else OK
    print_lines(f"a  {a.name}", f"b  {b.name}")
    if comparison.differs:
        print_lines(*format_diff(comparison))
    elif without_record_files(a.files) == without_record_files(b.files):
        print_lines("the same job, in the same files")
    else:
        print_lines("the same job, in files that differ in comments, order or whitespace")
    return DIFFERS if comparison.differs else OK


def _load_sides(arguments: Arguments) -> tuple[ComparedArtifact, ComparedArtifact]:
    words = arguments.words
    if VERSUS in words:
        index = words.index(VERSUS)
        parts = (words[:index], words[index + 1 :])
        for part in parts:
            _require_valid_side(part)
        sides = [_load_side(arguments, part) for part in parts]
    elif folders := [word for word in words if not is_override(word)]:
        overrides = tuple(word for word in words if word not in folders)
        sides = [*map(_load_written, folders)]
        if overrides:
            sides.append(_compile_side(arguments, overrides))
        elif len(folders) == 1:
            with _artifact_directory(folders[0]) as folder:
                recorded = parse_recorded_request(read_job(folder), arguments.config_dirs)
            sides.append(_compiled_side("the same overrides, compiled now", compile_job(recorded)))
    else:
        points = compile_sweep(build_request(arguments), progress_printer(), with_labels=False)
        sides = [_compiled_side(point.where or point.place, point) for point in points]
    if len(sides) != 2:
        because = f"these arguments describe {len(sides)}"
        hint = "jobc diff nodes=2,4, or jobc diff DIR DIR, or jobc diff DIR nodes=4"
        if VERSUS in (arguments.rest or ()):
            because = "everything after ` -- ` belongs to one command; set both commands with command=[…]"
        raise CompileError([Diagnostic("JC1110", "jobc diff compares two jobs", because, hint)])
    return sides[0], sides[1]


def _require_valid_side(side: tuple[str, ...]) -> None:
    """Raise CompileError JC1110 for a side of `vs` that is neither one directory nor overrides."""
    if not side or (len(side) > 1 and not all(map(is_override, side))):
        title = f"{' '.join(map(redact_override, side)) or 'nothing'} is not a valid side of {VERSUS}"
        because = "a side must be one artifact directory, or the overrides of one job"
        hint = "jobc diff DIR vs nodes=4, or jobc diff DIR nodes=4, or jobc diff nodes=2 vs nodes=4"
        raise CompileError([Diagnostic("JC1110", title, because, hint)])


def _load_side(arguments: Arguments, side: tuple[str, ...]) -> ComparedArtifact:
    return _compile_side(arguments, side) if is_override(side[0]) else _load_written(side[0])


def _compile_side(arguments: Arguments, words: tuple[str, ...]) -> ComparedArtifact:
    job = compile_job(build_request(dataclasses.replace(arguments, words=words)))
    return _compiled_side(" ".join(words), job)


def _compiled_side(name: str, compiled: CompiledJob) -> ComparedArtifact:
    files = {file.path: file.text for file in compiled.artifacts}
    return ComparedArtifact(name, files, frozenset(file.path for file in compiled.artifacts if file.executable))


@contextlib.contextmanager
def _artifact_directory(word: str) -> Iterator[Path]:
    """Yield the directory that a word names. DIR:N is point N of a sweep, which is written to a temporary folder.

    Raises CompileError JC5004 as _find_artifact_folder() does, and DamagedRecord.
    """
    match = re.fullmatch(r"(.+):(\d+)", word)
    if match is None or not (Path(match[1]) / POINTS).is_file():
        yield _find_artifact_folder(word)
        return
    sweep = Path(match[1])
    with tempfile.TemporaryDirectory() as scratch:
        try:
            points = read_points(sweep)
            write_artifact_of_point(sweep, points, points.find_point(match[2]), Path(scratch, "point"))
        except Failure as failure:
            raise DamagedRecord(failure.title) from None
        yield Path(scratch, "point")


def _find_artifact_folder(word: str) -> Path:
    """Return the artifact directory, or the newest attempt in a run folder. Raises CompileError JC5004 for others."""
    folder = Path(word)
    if not (folder / JOB).is_file():
        folder = newest_copy(folder)
    if not (folder / JOB).is_file():
        raise no_artifact_error(folder, "jobc diff")
    return folder


def _load_written(word: str) -> ComparedArtifact:
    """Return the job in a directory. Raises CompileError JC5009 if its job.json was edited, and JC1110 for a sweep."""
    with _artifact_directory(word) as folder:
        return _read_artifact(word, folder)


def _read_artifact(word: str, folder: Path) -> ComparedArtifact:
    if is_sweep(read_job(folder)):
        title, because = f"{word} is not a single job", "each point of a sweep is a separate job"
        hint = shlex.join(["jobc", "diff", f"{word}:0", f"{word}:1"])
        raise CompileError([Diagnostic("JC1110", title, because, hint)])
    edits = find_edited_files(folder)
    if any(edit.path == JOB and edit.kind != UNSUMMED for edit in edits):
        title, because = f"{word} was edited and no longer describes its job", f"edited by hand: {JOB}"
        raise CompileError([Diagnostic("JC5009", title, because, "compile the job again with --force")])
    paths = {*read_job(folder)["checksums"], *(edit.path for edit in edits)}
    existing = {path: folder / path for path in paths if (folder / path).is_file()}
    files = {path: read_text_with_line_endings(file) for path, file in existing.items()}
    executable = frozenset(path for path, file in existing.items() if is_executable(file))
    return ComparedArtifact(word, files, executable, frozenset(edit.path for edit in edits if edit.kind == "link"))


def diff_to_json_object(found: ArtifactComparison) -> dict[str, Any]:
    """Return the diff as JSON. A side that lacks a key has no value there."""

    def drop_absent(fields: Iterable[tuple[str, Any]]) -> dict[str, Any]:
        return {name: value for name, value in fields if value is not ABSENT}

    return dataclasses.asdict(found, dict_factory=drop_absent)


def format_diff(found: ArtifactComparison) -> list[str]:
    """Return the printed lines in blocks: meaning, keys, whether one run can resume the other, and files."""
    lines: list[str] = []
    sections: Sequence[tuple[str, Sequence[KeyChange]]] = (("what the job is", found.meaning), ("keys", found.spec))
    for title, changes in sections:
        if changes:
            lines += ["", title, *_align_columns([(change.key, _format_change(change)) for change in changes])]
    if found.breaks_resume:
        lines += ["", f"neither job can resume the other's runs: {', '.join(found.breaks_resume)}"]
    elif found.spec:
        elsewhere = any(change.key in ("run.folder", "run.root") for change in found.meaning)
        by_folder = " with --resume FOLDER (an ID is looked up among the runs of the same job)"
        lines += ["", f"either job can resume the other's runs{by_folder * elsewhere}"]
    if found.files:
        counts = [f"{file.lines} line{'s' * (file.lines != 1)}" for file in found.files]
        rows = [
            (f.path, count if f.kind == "changed" else f.kind) for f, count in zip(found.files, counts, strict=True)
        ]
        lines += ["", "files", *_align_columns(rows)]
    return lines


def _align_columns(rows: Sequence[tuple[str, str]]) -> list[str]:
    width = max(len(name) for name, _ in rows)
    return [f"  {name.ljust(width)}  {text}" for name, text in rows]


def _format_change(change: KeyChange) -> str:
    def format_value(value: Any) -> str:
        if value is ABSENT:
            return "(not there)"
        return value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)

    return f"{format_value(change.before)} → {format_value(change.after)}"
