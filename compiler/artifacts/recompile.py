"""Recompile an artifact directory from the arguments in its job.json, and report how its inputs have changed.

In:  an artifact directory, and the user's config folders as they are now.
Out: RecompiledArtifact, which contains the files and their source map; and ArtifactDrift, which describes the
     differences, or None if the inputs still produce the same files.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...runtime.system.frozen_dataclass import dataclass
from ...runtime.system.untrusted_files import Unreadable, read_bytes
from ..diagnostics.diagnostic import CompileError, Diagnostic
from ..diagnostics.origin import COMMAND_LINE
from ..emit.artifact import PROGRAM
from ..emit.artifact_dir import (
    LARGEST,
    artifact_digest,
    file_checksum,
    job_json_checksum,
    read_job,
    read_text_with_line_endings,
)
from ..emit.job_json import JOB
from ..emit.source_map import SourceMap
from ..pipeline.compile import compile_job
from ..pipeline.sweeps import compile_sweep, group_points_into_folders
from ..pipeline.types import CompileRequest
from .diff import ArtifactComparison, ComparedArtifact, DamagedRecord, compare_artifacts

_FILE_OUTSIDE_PROJECT = "JC1115"


@dataclass(frozen=True)
class RecompiledArtifact:
    """Result of recompile_artifact(). texts: path -> text of each file."""

    source_map: SourceMap
    texts: Mapping[str, str]

    @property
    def job(self) -> dict[str, Any]:
        return dict(json.loads(self.texts[JOB]))


@dataclass(frozen=True)
class ArtifactDrift:
    """Differences between a fresh compile of the recorded command line and the artifact.

    causes:  one sentence for each input file that has changed, and one if the version of jobc or of the backend's
             package has changed.
    refused: diagnostics if the job no longer compiles; then all fields below are empty.
    files:   paths outside .jobc/ that would be written differently.
    library: whether jobctl itself would differ.
    found:   differences in meaning, or None if the artifact's own record was edited by hand.
    uncompiled: why nothing was recompiled, or "". If it is set, the only other field that is set is `causes`.
    """

    causes: tuple[str, ...]
    refused: tuple[Diagnostic, ...] = ()
    files: tuple[str, ...] = ()
    library: bool = False
    found: ArtifactComparison | None = None
    uncompiled: str = ""


class CannotRecompile(Exception):
    """Raised if an artifact cannot be recompiled on this machine. The message is the reason."""


def recompile_artifact(folder: Path, config_dirs: tuple[tuple[str, Path], ...]) -> RecompiledArtifact:
    """Compile a directory again. Raises CannotRecompile, and CompileError as in read_job() or if the compile fails."""
    written = read_job(folder)
    request = parse_recorded_request(written, config_dirs)
    if elsewhere := _uncopied_inputs(written, folder, config_dirs):
        raise CannotRecompile(f"not on this machine: {', '.join(elsewhere)}")
    try:
        if not is_sweep(written):
            compiled = compile_job(request)
            return RecompiledArtifact(compiled.source_map, {file.path: file.text for file in compiled.artifacts})
        for sweep in group_points_into_folders(compile_sweep(request))[0]:
            if sweep.place == written["place"]:
                return RecompiledArtifact(sweep.source_map, {file.path: file.text for file in sweep.artifacts})
    except CompileError as error:  # `@FILE` may name any file only when it is typed; a recorded one may be forged
        outside = [
            d.key
            for d in error.diagnostics
            if d.code == _FILE_OUTSIDE_PROJECT and d.origin and d.origin.root == COMMAND_LINE
        ]
        if len(outside) < len(error.diagnostics):
            raise
        raise CannotRecompile(f"{', '.join(outside)}=@… names a file outside the project") from None
    raise CannotRecompile(f"the sweep no longer has a directory {written['place']}")


def find_drift(
    folder: Path, config_dirs: tuple[tuple[str, Path], ...]
) -> tuple[ArtifactDrift | None, RecompiledArtifact | None]:
    """Return a directory's drift (None if nothing differs) and the result of recompiling it (None if that fails).

    Raises CannotRecompile, and CompileError as in read_job().
    """
    written, folders = read_job(folder), dict(config_dirs)
    try:
        again = recompile_artifact(folder, config_dirs)
    except CannotRecompile as error:
        elsewhere = _uncopied_inputs(written, folder, config_dirs)
        local_inputs = {source: digest for source, digest in written["inputs"].items() if source not in elsewhere}
        if causes := _describe_changed_inputs(local_inputs, folders):
            return ArtifactDrift(causes, uncompiled=str(error)), None
        raise
    except CompileError as error:
        return ArtifactDrift(_explain_drift(written, {}, folders), tuple(error.diagnostics)), None
    now = again.job
    if now["digest"] == artifact_digest(written["checksums"]):
        return None, again
    paths = sorted(written["checksums"].keys() | now["checksums"].keys())
    changed_paths = [path for path in paths if written["checksums"].get(path) != now["checksums"].get(path)]
    own_files = tuple(path for path in changed_paths if path != PROGRAM and not path.startswith(".jobc/"))
    library = PROGRAM in changed_paths
    comparison = None if is_sweep(written) else _compare_unedited(folder, written, again.texts)
    return ArtifactDrift(_explain_drift(written, now, folders), (), own_files, library, comparison), again


def is_sweep(job: Mapping[str, Any]) -> bool:
    """Return whether this is the job.json of a sweep directory, which has several points."""
    return bool(job["sweep"])


def parse_recorded_request(written: Mapping[str, Any], config_dirs: tuple[tuple[str, Path], ...]) -> CompileRequest:
    asked = written["request"]
    command = None if asked["command"] is None else tuple(asked["command"])
    return CompileRequest(tuple(asked["words"]), command, config_dirs, asked["config_name"], asked["strict"], True)


def _compare_unedited(folder: Path, written: Mapping[str, Any], now: Mapping[str, str]) -> ArtifactComparison | None:
    """Compare the files that jobc wrote, except those edited since then."""
    before: dict[str, str] = {}
    for path, entry in written["checksums"].items():
        file = folder / path
        if file.is_file() and (job_json_checksum(file) if path == JOB else file_checksum(file)) == entry["sha256"]:
            before[path] = read_text_with_line_endings(file)
    try:
        comparison = compare_artifacts(
            ComparedArtifact("", before, frozenset()), ComparedArtifact("", now, frozenset())
        )
    except DamagedRecord:
        return None
    return replace(
        comparison, files=tuple(f for f in comparison.files if f.path in before or f.path not in written["checksums"])
    )


def _explain_drift(written: Mapping[str, Any], now: Mapping[str, Any], folders: Mapping[str, Path]) -> tuple[str, ...]:
    from ... import __version__

    causes = [*_describe_changed_inputs(written["inputs"], folders)]
    causes += [
        f"{source} is new: the original compile did not read it"
        for source in now.get("inputs", {})
        if source not in written["inputs"]
    ]
    causes += [f"{source} is no longer read" for source in written["inputs"] if now and source not in now["inputs"]]
    if written["digest"] != artifact_digest(written["checksums"]):
        causes.append("the checksums in job.json were changed after the compile")
    versions = written["versions"]
    if versions["jobc"] != __version__:
        causes.append(f"jobc was {versions['jobc']} and is now {__version__}")
    if now and versions.get("plugin") != now["versions"].get("plugin"):
        causes.append(f"the backend was {versions.get('plugin')} and is now {now['versions'].get('plugin')}")
    return tuple(causes)


def _describe_changed_inputs(inputs: Mapping[str, str], folders: Mapping[str, Path]) -> tuple[str, ...]:
    """Return a sentence for each input that was changed or deleted. inputs: source -> digest at compile time."""
    now = {source: _read_input(source, folders) for source in inputs}
    return tuple(
        f"{source} was deleted" if now[source] is None else f"{source} was changed"
        for source, digest in inputs.items()
        if hashlib.sha256((now[source] or "").encode("utf-8", "surrogateescape")).hexdigest() != digest
        or now[source] is None
    )


def _uncopied_inputs(
    written: Mapping[str, Any], artifact: Path, config_dirs: tuple[tuple[str, Path], ...]
) -> tuple[str, ...]:
    """Return the inputs that are missing because only the artifact was copied here, not because they were deleted."""
    folders = dict(config_dirs)
    jobc_folder = next((above / "jobc" for above in artifact.absolute().parents if (above / "jobc").is_dir()), None)
    came_along = {
        root for root, path in folders.items() if root == "input" or (root == "project" and path == jobc_folder)
    }
    return tuple(
        s for s in written["inputs"] if s.partition(":")[0] not in came_along and _read_input(s, folders) is None
    )


def _read_input(source: str, folders: Mapping[str, Path]) -> str | None:
    """Return the text of the input `ROOT:PATH`, or None if missing. With root `file`, PATH is the path as typed."""
    root, _, path = source.partition(":")
    if root != "file" and root not in folders:
        return None
    file = os.path.expanduser(path) if root == "file" else folders[root] / path
    try:
        content = read_bytes(file, LARGEST)
    except Unreadable:
        return None
    return content.decode("utf-8", "surrogateescape").replace("\r\n", "\n").replace("\r", "\n")
