"""jobc verify: check that nobody has edited an artifact directory, and that its inputs still give the same files.

jobc verify DIR …    lists hand edits with their lines, inputs that have changed since, and the digest to quote

Pass the same `--config-dir FOLDER` with which DIR was compiled. The exit code is 1 if a file or the inputs differ, or
if something cannot be read. `--format json` prints one document on stdout. Nothing in the directory is run or imported.
"""

from __future__ import annotations

import shlex
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...runtime.system.frozen_dataclass import dataclass
from ...runtime.system.untrusted_files import Unreadable
from ..diagnostics.diagnostic import CompileError, Diagnostic, Severity
from ..emit.artifact_dir import ManualEdit, describe_edit, find_edited_lines, read_job
from ..emit.job_json import JOB
from .arguments import Arguments, is_override
from .explain_and_backends import pop_option, unknown_option_error, usage_error
from .find_artifacts import no_artifact_error
from .reporting import DIAGNOSTICS, OK, report_diagnostics, system_error_diagnostic
from .terminal import print_json, print_lines

if TYPE_CHECKING:
    from ..artifacts.recompile import ArtifactDrift

EXAMPLE = "jobc verify artifacts/hello/local"
LOG_OF_SBATCH = "slurm-*.out"  # which `sbatch job.sbatch` writes to the working directory, often this directory
MOST_WORDS = 1_000  # maximum number of words of a command in a hint


def verify_command(arguments: Arguments) -> int:
    words = list(arguments.words)
    form, folder = pop_option(words, "--format"), pop_option(words, "--config-dir")
    if form not in (None, "json"):
        raise usage_error("verify", "--format must be json", EXAMPLE)
    if folder == "":
        raise usage_error("verify", "--config-dir needs a folder", EXAMPLE)
    if option := next((word for word in words if word.startswith("-")), None):
        because = "the options of jobc verify are --config-dir FOLDER and --format json"
        raise unknown_option_error("verify", option, because)
    if not words:
        raise usage_error("verify", "DIR", EXAMPLE)
    if folder:
        arguments = replace(arguments, config_dir=Path(folder))
    documents, differs = [], False
    for word in words:
        try:
            result = _verify_artifact(word, arguments)
        except (CompileError, OSError, Unreadable) as error:  # the other directories are still reported
            differs = True
            diagnostics = error.diagnostics if isinstance(error, CompileError) else (system_error_diagnostic(error),)
            fields = ("code", "title", "because", "hint")
            refused = [{field: getattr(diagnostic, field) for field in fields} for diagnostic in diagnostics]
            documents.append({"directory": word, "refused": refused})
            if not form:
                report_diagnostics(diagnostics)
            continue
        differs |= bool(result.edits) or result.drift is not None
        documents.append(result.to_document())
        if not form:
            _report_edits(result)
    if form:
        print_json(documents)
    return DIAGNOSTICS if differs else OK


@dataclass(frozen=True)
class VerifyResult:
    """Result for one directory.

    files, digest: number of the original files, and their digest.
    drift: None if the inputs are unchanged.
    unknown: why the inputs were not compared, or "" if they were.
    again: instruction to rewrite the directory.
    """

    folder: str
    files: int
    digest: str
    edits: tuple[ManualEdit, ...]
    drift: ArtifactDrift | None
    unknown: str
    again: str

    def to_document(self) -> dict[str, Any]:
        inputs: dict[str, Any] = {"state": "the same" if self.drift is None else "changed"}
        if self.unknown:
            inputs = {"state": "not compared", "because": self.unknown}
        elif self.drift is not None:
            from .diff import diff_to_json_object

            comparison = diff_to_json_object(self.drift.found) if self.drift.found is not None else {}
            inputs |= {
                "causes": self.drift.causes,
                "files": self.drift.files,
                "library": self.drift.library,
                "refused": [{"code": diagnostic.code, "title": diagnostic.title} for diagnostic in self.drift.refused],
                "not_compiled": self.drift.uncompiled,
                **{key: comparison.get(key) for key in ("meaning", "spec", "breaks_resume")},
            }
        return {
            "directory": self.folder,
            "files": self.files,
            "digest": self.digest,
            "edits": [describe_edit(edit) for edit in self.edits],
            "inputs": inputs,
        }


def _verify_artifact(word: str, arguments: Arguments) -> VerifyResult:
    from ..artifacts.recompile import CannotRecompile, find_drift

    if not (Path(word) / JOB).is_file():
        raise no_artifact_error(Path(word), "jobc verify")
    job, input_drift, again, unknown = read_job(Path(word)), None, None, ""
    try:
        input_drift, again = find_drift(Path(word), arguments.config_dirs)
    except CannotRecompile as error:
        unknown = str(error)
    found = find_edited_lines(Path(word), again.texts if again else {})
    edits = tuple(edit for edit in found if edit.kind != "added" or not fnmatch(edit.path, LOG_OF_SBATCH))
    command = _recompile_command(Path(word), arguments.config_dir)
    return VerifyResult(word, len(job["checksums"]), job["digest"], edits, input_drift, unknown, command)


def _recompile_command(folder: Path, config_dir: Path | None) -> str:
    """Return the command that rewrites the directory, or advice if the recorded words may be forged or too long."""
    from ..artifacts.recompile import is_sweep, parse_recorded_request
    from .compiling import display_path

    job = read_job(folder)
    was = parse_recorded_request(job, ())
    options = ["-m"] * is_sweep(job)
    options += [] if was.config_name == "config" else ["--config-name", was.config_name]
    options += ["--config-dir", str(config_dir)] if config_dir else []
    options += ["--strict"] * was.strict
    out = folder.absolute().parent.parent
    is_copy = out / job["place"] != folder.absolute()
    options += [] if is_copy or display_path(out) == "artifacts" else ["--out", display_path(out)]
    words = ["jobc", "--force", *options, *was.words, *(() if was.command is None else ("--", *was.command))]
    is_plain = all(is_override(word) and not word.startswith("-") for word in was.words)
    return shlex.join(words) if is_plain and len(words) <= MOST_WORDS else "compile the job again with --force"


def _report_edits(result: VerifyResult) -> None:
    diagnostics = []
    for edit in result.edits:
        is_added = edit.kind == "added"
        title = f"{result.folder}/{describe_edit(edit)}"
        because = "jobc did not write this file" if is_added else "the file was changed after jobc wrote it"
        hint = f"{result.again}, to undo the edits; without --force nothing is overwritten"
        if is_added:
            hint = f"rm -- {shlex.quote(f'{result.folder}/{edit.path}')}"
        diagnostics.append(Diagnostic("JC5007", title, because, hint))
    report_diagnostics(diagnostics)
    if result.edits:
        print_lines(f"{result.folder}: {len(result.edits)} edit{'s' * (len(result.edits) > 1)}")
        print_lines(f"  digest   {result.digest} (of the original files)")
    else:
        print_lines(f"{result.folder}: {result.files} files, none edited", f"  digest   {result.digest}")
    if result.unknown:
        print_lines(f"  inputs   not compared: {result.unknown}")
    elif result.drift is None:
        print_lines("  inputs   unchanged: compiling them again gives the same files")
    else:
        _report_drift(result, result.drift)


def _report_drift(result: VerifyResult, found: ArtifactDrift) -> None:
    from .diff import format_diff as difference

    unexplained = "no recorded input explains the difference: jobc's own code was changed"
    hint = f"{result.again}, to apply the change; existing runs keep their files"
    title = f"{result.folder}: its inputs now compile to different files"
    if found.refused:
        title = f"{result.folder}: its inputs no longer compile"
        hint = f"restore missing files, or fix the errors printed here; then {hint}"
        unexplained = "the errors are printed here"
    if found.uncompiled:
        title = f"{result.folder}: its inputs were changed"
        print_lines(f"  inputs   not recompiled: {found.uncompiled}")
    because = "; ".join(found.causes) or unexplained
    report_diagnostics([Diagnostic("JC5032", title, because, hint, severity=Severity.ERROR), *found.refused])
    if found.found is not None and found.found.differs:
        print_lines(*difference(found.found))
    elif found.files:
        print_lines("", "files", *(f"  {path}" for path in found.files))
    if found.library:
        print_lines("", "  jobctl would differ")
