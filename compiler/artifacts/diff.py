"""Compare two artifacts: first their meaning, then their records, then their files.

In:  two mappings of path -> text, compiled in memory or read from directories. The records are in .jobc/job.json.
Out: an ArtifactComparison.

Differences in comments, key order and anything else that the program reading the file ignores are not reported
(normalize.py).
"""

from collections.abc import Iterator, Mapping
from typing import Any

from ...runtime.system.frozen_dataclass import dataclass
from ...runtime.system.untrusted_files import Unreadable, parse_json
from ..emit.job_json import JOB, is_list_of_lines
from ..emit.line_diff import diff_opcodes
from ..plan import flat_lines
from .normalize import normalized_lines


class ABSENT:
    """Stands for a missing value, because null is a valid one. A class, because asdict() would copy an object."""


class DamagedRecord(ValueError):
    """Raised when an artifact's record is missing or malformed."""


@dataclass(frozen=True)
class KeyChange:
    """A key whose value differs. Each value is either JSON-serializable or ABSENT."""

    key: str
    before: Any
    after: Any


@dataclass(frozen=True)
class FileChange:
    """A file that differs. lines: number of lines that only one side has; 0 unless kind is `changed`."""

    path: str
    kind: str  # changed | only in a | executable only in a | a link only in a; or the same with b instead of a
    lines: int


@dataclass(frozen=True)
class ComparedArtifact:
    """One side of a comparison.

    name: how it is printed.
    files: path -> text of each file.
    executable, links: paths of the executable files and of the symlinks.
    """

    name: str
    files: Mapping[str, str]
    executable: frozenset[str]
    links: frozenset[str] = frozenset()


@dataclass(frozen=True)
class ArtifactComparison:
    """Result of compare_artifacts().

    meaning: plan leaves that differ.
    spec: job keys that differ.
    breaks_resume: changed keys that prevent one run from resuming the other (D10).
    """

    meaning: tuple[KeyChange, ...]
    spec: tuple[KeyChange, ...]
    breaks_resume: tuple[str, ...]
    files: tuple[FileChange, ...]

    @property
    def differs(self) -> bool:
        return bool(self.meaning or self.spec or self.files)


def compare_artifacts(left: ComparedArtifact, right: ComparedArtifact) -> ArtifactComparison:
    """Compare two artifacts. Raises DamagedRecord."""
    a, b = _parse_job_json(left.files), _parse_job_json(right.files)
    identity = _compare_keys(parse_job_record(a, "identity"), parse_job_record(b, "identity"))
    return ArtifactComparison(
        meaning=_compare_plans(parse_job_record(a, "plan"), parse_job_record(b, "plan")),
        spec=tuple(_compare_keys(_recorded_spec(a), _recorded_spec(b))),
        breaks_resume=tuple(change.key for change in identity),
        files=tuple(_compare_files(left, right)),
    )


def _compare_plans(a: Mapping[str, Any], b: Mapping[str, Any]) -> tuple[KeyChange, ...]:
    """Return the plan leaves that differ, without those of train.json if only one of the jobs has this file."""
    changes = _compare_keys(a, b)
    is_only_in_one = any(change.key == "uses_trainer" for change in changes)
    return tuple(change for change in changes if not (is_only_in_one and change.key.startswith("train.")))


def _compare_keys(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[KeyChange]:
    pairs_of = ((key, a.get(key, ABSENT), b.get(key, ABSENT)) for key in sorted(a.keys() | b.keys()))
    changes = [KeyChange(key, before, after) for key, before, after in pairs_of if before != after]
    return [change for change in changes if not _is_redundant(change, changes)]


def _is_redundant(change: KeyChange, changes: list[KeyChange]) -> bool:
    """Return whether a change only adds or removes an empty mapping whose keys are reported anyway."""
    sides = (change.before, change.after)
    return {} in sides and ABSENT in sides and any(other.key.startswith(f"{change.key}.") for other in changes)


def _recorded_spec(job: Mapping[str, Any]) -> dict[str, Any]:
    """Return the job's spec keys. A value that jobc derives is null here."""
    backend = parse_job_record(job, "plan").get("backend.name")
    return {**parse_job_record(job, "identity"), **parse_job_record(job, "spec"), "backend": backend}


def _parse_job_json(files: Mapping[str, str]) -> dict[str, Any]:
    """Return an artifact's job.json. Raises DamagedRecord."""
    if JOB not in files:
        raise DamagedRecord(f"{JOB} is missing")
    try:
        return dict(parse_json(JOB, files[JOB]))
    except (Unreadable, ValueError, TypeError):
        raise DamagedRecord(f"{JOB} is not a JSON object") from None


def parse_job_record(job: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return one record of job.json as key -> value. name: identity, spec or plan. Raises DamagedRecord."""
    if name not in job:
        raise DamagedRecord(f"{JOB} has no {name}")
    try:
        if is_list_of_lines(job[name]):
            return flat_lines.parse_flat_lines(job[name])
    except Unreadable:
        pass
    raise DamagedRecord(f"{name} in {JOB} is not a list of `key = JSON value` lines")


def without_record_files(files: Mapping[str, str]) -> dict[str, str]:
    """Return the files outside .jobc/. The files in .jobc/ only describe them."""
    return {path: text for path, text in files.items() if not path.startswith(".jobc/")}


def _compare_files(left: ComparedArtifact, right: ComparedArtifact) -> Iterator[FileChange]:
    a, b = without_record_files(left.files), without_record_files(right.files)
    for path in sorted(a.keys() | b.keys()):
        if path not in b or path not in a:
            yield FileChange(path, "only in a" if path in a else "only in b", 0)
        elif a[path] != b[path] and (lines := _count_different_lines(path, a[path], b[path])):
            yield FileChange(path, "changed", lines)
        for property_name, in_a, in_b in (
            ("executable", left.executable, right.executable),
            ("a link", left.links, right.links),
        ):
            if path in a and path in b and (path in in_a) != (path in in_b):
                yield FileChange(path, f"{property_name} only in {'a' if path in in_a else 'b'}", 0)


def _count_different_lines(path: str, a: str, b: str) -> int:
    lines_a, lines_b = normalized_lines(path, a), normalized_lines(path, b)
    if lines_a is None or lines_b is None:
        lines_a, lines_b = a.split("\n"), b.split("\n")
    equal_count = sum(end - begin for kind, begin, end, _, _ in diff_opcodes(lines_a, lines_b) if kind == "equal")
    return max(len(lines_a), len(lines_b)) - equal_count
