"""Read the differences between a sweep's points from points.json, and write one point's artifact.

In:  a sweep's directory: its first point's files, and points.json.
Out: a point's files, identical to those that jobc would write if it compiled this point alone; or Failure.
points.json contains `lines` (the number of lines of each file that differs in any point, by path), `every_point` (the
changes that turn the directory's files into the first point's files), and for each point its `changes` from the first
point. Changes map a file's lines to the lines that replace them: "7", "7-9", or "7+" to insert after line 7.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..system.failure import Failure
from ..system.untrusted_files import MIB, Unreadable, is_file_name, is_safe_relative_path, read_json
from ..system.values import read_artifact_json
from .artifact_copies import JOB_FILE

POINTS = "points.json"
MOST_BYTES = 64 * MIB
if TYPE_CHECKING:
    Changes = dict[str, dict[str, list[str]]]  # path -> lines -> the lines that replace them
_LINES = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9})|(\+))?")


class SweepPoint(NamedTuple):
    """One point of a sweep.

    number:    counted from 0.
    label:     readable text that identifies the point.
    job:       name of its job, and of the folder that contains its runs.
    overrides: the words that select this point.
    changes:   differences from the first point.
    """

    number: int
    label: str
    job: str
    overrides: list[str]
    changes: Changes


class SweepPoints(NamedTuple):
    """A points.json. lines: path -> number of lines in each file that has changes"""

    lines: dict[str, int]
    every_point: Changes
    points: list[SweepPoint]

    def find_point(self, named: str) -> SweepPoint:
        for point in self.points:
            if named in (str(point.number), point.label, point.job):
                return point
        hint = f"jobctl status lists the points, which are numbered from 0 to {len(self.points) - 1}"
        raise Failure(f"the sweep has no point {named}", hint, 2)


def read_points(sweep: Path) -> SweepPoints:
    """Return the points of the sweep in this directory. Raises Failure if the file is missing or damaged."""
    file = sweep / POINTS
    try:
        tree = read_json(file, MOST_BYTES)
        lines, every_point = tree["lines"], _validate_changes(tree["every_point"])
        points = [_parse_point(number, entry) for number, entry in enumerate(tree["points"])]
        if not points or not all(type(count) is int for count in lines.values()):
            raise ValueError("no points")
    except Unreadable as error:
        raise _damaged_file_failure(file, error.reason) from None
    except (AttributeError, KeyError, TypeError, ValueError):
        raise _damaged_file_failure(file, "does not describe the points of a sweep") from None
    return SweepPoints(lines, every_point, points)


def _parse_point(number: int, entry: Mapping[str, Any]) -> SweepPoint:
    label, job, overrides = entry["label"], entry["job"], entry["overrides"]
    if not (isinstance(label, str) and isinstance(job, str) and is_file_name(job) and isinstance(overrides, list)):
        raise ValueError(number)
    return SweepPoint(number, label, job, list(map(str, overrides)), _validate_changes(entry["changes"]))


def _validate_changes(changes: Mapping[str, Any]) -> Changes:
    """Return the changes. Raises ValueError, AttributeError or TypeError if they are malformed."""
    for path, hunks in changes.items():
        for lines in hunks.values():
            if (
                not is_safe_relative_path(path)
                or not isinstance(lines, list)
                or not all(isinstance(line, str) for line in lines)
            ):
                raise ValueError(path)
    return dict(changes)


def _damaged_file_failure(file: Path, reason: str) -> Failure:
    return Failure(f"{file} {reason}", "compile the sweep again, with --force if the file was edited")


def write_artifact_of_point(sweep: Path, points: SweepPoints, point: SweepPoint, folder: Path) -> None:
    """Create the folder with a point's files. Raises Failure, or OSError if the folder cannot be written."""
    checksums = read_artifact_json(sweep / JOB_FILE).get("checksums")
    checksums = checksums if isinstance(checksums, dict) else {}
    texts = {}
    for path in dict.fromkeys((*points.every_point, *point.changes)):
        text = _sweep_file_text(sweep, path, points.lines.get(path), checksums.get(path))
        for changes in (points.every_point, point.changes):
            try:
                text = apply_changes(text, changes.get(path, {}))
            except ValueError as error:
                raise _damaged_file_failure(
                    sweep / POINTS, f"is damaged: point {point.number}, {path}: {error}"
                ) from None
        texts[path] = text
    shutil.copytree(sweep, folder, symlinks=True, ignore=shutil.ignore_patterns(POINTS, "__pycache__"))
    for path, text in texts.items():
        file = folder / path
        mode = stat.S_IMODE(file.stat().st_mode)
        file.unlink()  # because it may be a symbolic link to some other file
        file.write_bytes(text.encode("utf-8", "surrogateescape"))
        file.chmod(mode)


def _sweep_file_text(sweep: Path, path: str, lines: int | None, entry: Any) -> str:
    """Return a file from the directory. Raises Failure if its number of lines differs from the one in points.json."""
    try:
        content = (sweep / path).read_bytes()
    except OSError as error:
        raise Failure(f"cannot read {sweep / path}: {error.strerror}", "compile the sweep again") from None
    text, is_same = content.decode("utf-8", "surrogateescape"), True
    if path != JOB_FILE and isinstance(entry, dict):  # there is no checksum of job.json's whole text
        is_same = hashlib.sha256(content).hexdigest() == entry.get("sha256")
    if not is_same or text.count("\n") != lines:
        title = f"{sweep / path} was edited, and {POINTS} changes its lines by number"
        raise Failure(title, "put the edit into the spec and compile the sweep again with --force")
    return text


def apply_changes(text: str, changes: Mapping[str, Sequence[str]]) -> str:
    """Return the text with these lines replaced. Raises ValueError for lines that do not exist or are changed twice."""
    lines = text.split("\n")
    end = len(lines)
    for name, replacement in reversed(list(changes.items())):
        match = _LINES.fullmatch(name)
        if match is None:
            raise ValueError(f"invalid line {name}")
        first, last, is_inserted = int(match[1]), int(match[2] or match[1]), bool(match[3])
        first = last if is_inserted else first - 1
        if not 0 <= first <= last <= end or (first == last and not is_inserted):
            raise ValueError(f"line {name} does not exist, or is changed twice")
        lines[first:last], end = replacement, first
    return "\n".join(lines)
