"""Golden cases: the expected text of artifacts.

A case is a directory:
    CASE/overrides.txt  one override per line, then `--` and the words of the command if there is one. With `-m` in the
                        first line, the case is a sweep, and the folder of the whole sweep is compared
    CASE/expected/…     the expected files
    CASE/expected.txt   instead of expected/, the diagnostics of a compile that must fail
    CASE/project/…      files that must be next to artifacts/ when the case runs
    CASE/files.txt      one path per line, if the case compares only these files
suite.py runs the cases.
"""

import difflib
import re
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from ..diagnostics.diagnostic import CompileError, format_for_terminal
from ..emit.artifact import PROGRAM, Artifact
from ..emit.job_json import JOB
from ..emit.points_json import POINTS
from ..pipeline.compile import compile_job
from ..pipeline.sweeps import compile_sweep, group_points_into_folders
from ..pipeline.types import CompiledJob, CompileRequest, SweepFolder

# added by jobc to every artifact
NEUTRAL = ("launch.sh", "train.json", "spec.yaml", POINTS)


def read_golden_case(case: Path) -> CompileRequest:
    words = _override_lines(case)
    if is_sweep_case(case):
        words = words[1:]
    if "--" not in words:
        return CompileRequest(tuple(words))
    separator = words.index("--")
    return CompileRequest(tuple(words[:separator]), tuple(words[separator + 1 :]))


def is_sweep_case(case: Path) -> bool:
    return _override_lines(case)[:1] == ["-m"]


def _override_lines(case: Path) -> list[str]:
    return [line for line in (case / "overrides.txt").read_text(encoding="utf-8").split("\n") if line]


def _compile_case(case: Path) -> CompiledJob | SweepFolder:
    if not is_sweep_case(case):
        return compile_job(read_golden_case(case))
    (folder,), _ = group_points_into_folders(compile_sweep(read_golden_case(case)))
    return folder


def golden_files(compiled: CompiledJob | SweepFolder, neutral: bool) -> dict[str, Artifact]:
    """Return path -> artifact for a golden, without jobctl and .jobc/. neutral: whether to include jobc's own files"""
    return {
        a.path: replace(a, text=_strip_embedded_files(a.text, neutral)) if a.path.endswith(".yaml") else a
        for a in compiled.artifacts
        if a.path != PROGRAM and not a.path.startswith(".jobc/") and (neutral or a.path not in NEUTRAL)
    }


def _strip_embedded_files(manifest: str, neutral: bool) -> str:
    """Return a manifest from whose ConfigMap the files that goldens omit have been removed (FileEmbeddingBackend)."""
    left_out = [key.replace("/", "--") for key in (JOB, *(() if neutral else NEUTRAL))]
    block = "|".join(re.escape(key) for key in left_out)
    text = re.sub(rf"^  (?:{block}): .*\n(?:    .*\n|\n)*", "", manifest, flags=re.MULTILINE)
    return re.sub(r"^binaryData:\n(?: .*\n)*", "", text, flags=re.MULTILINE)


def _select_listed_files(case: Path, files: dict[str, Artifact]) -> dict[str, Artifact]:
    if not (case / "files.txt").exists():
        return files
    paths = (case / "files.txt").read_text(encoding="utf-8").split()
    assert files.keys() >= set(paths), f"{case}/files.txt lists files that are not emitted"
    return {path: files[path] for path in paths}


def golden_differences(case: Path, neutral: bool = False, update: bool = False) -> list[str]:
    """Return the differences between a golden case and a fresh compile. update: whether to rewrite the case"""
    try:
        files = _select_listed_files(case, golden_files(_compile_case(case), neutral))
        failure = None
    except CompileError as error:
        if any(d.code.startswith("JC9") for d in error.diagnostics):  # so that --update-golden does not accept a bug
            raise
        # without the codes' names, so that renaming a code does not change goldens
        files, failure = {}, format_for_terminal(error.diagnostics) + "\n"
    if update:
        _write_expected(case, files, failure)
    expected = case / "expected"
    expected_paths = {p.relative_to(expected).as_posix() for p in expected.rglob("*") if p.is_file()}
    differences = [f"only in expected/: {p}" for p in sorted(expected_paths - set(files))]
    differences += [f"not in expected/: {p}" for p in sorted(set(files) - expected_paths)]
    for path in sorted(expected_paths & set(files)):
        differences += _unified_diff((expected / path).read_text(encoding="utf-8"), files[path].text, path)
        if bool((expected / path).stat().st_mode & 0o100) != files[path].executable:
            differences.append(f"{path}: executable bit differs")
    old = (case / "expected.txt").read_text(encoding="utf-8") if (case / "expected.txt").exists() else ""
    return differences + _unified_diff(old, failure or "", "diagnostics")


def _unified_diff(before: str, after: str, path: str) -> list[str]:
    return list(difflib.unified_diff(before.split("\n"), after.split("\n"), f"expected {path}", path, lineterm=""))


def _write_expected(case: Path, files: Mapping[str, Artifact], failure: str | None) -> None:
    shutil.rmtree(case / "expected", ignore_errors=True)
    (case / "expected.txt").unlink(missing_ok=True)
    if failure is not None:
        (case / "expected.txt").write_text(failure, encoding="utf-8")
    for path, artifact in files.items():
        target = case / "expected" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(artifact.text, encoding="utf-8", newline="")
        target.chmod(0o755 if artifact.executable else 0o644)
