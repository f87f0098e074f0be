"""Format points.json, the differences between the points of a sweep. runtime/run_folder/points_file.py reads it.

In:  the files in the sweep's directory, and the files of every point.
Out: the text of points.json, with one line for each file that differs.
"""

from collections.abc import Iterator, Mapping, Sequence

from ...runtime.system.frozen_dataclass import dataclass
from ..plan.flat_lines import to_json
from .line_diff import diff_opcodes

POINTS = "points.json"  # as in runtime/run_folder/points_file.py; copied to avoid its imports
MOST_REPLACED = 50  # if more lines differ, search for inserted and removed lines

Changes = dict[str, dict[str, list[str]]]


@dataclass(frozen=True)
class PointFiles:
    """One point. label, job, overrides: as in runtime/run_folder/points_file.py; files: path -> text of each file"""

    label: str
    job: str
    overrides: Sequence[str]
    files: Mapping[str, str]


def points_json_text(directory: Mapping[str, str], points: Sequence[PointFiles]) -> str:
    """Return the text of points.json. directory: path -> text of the sweep's files; every point has the same paths"""
    first = points[0].files
    every_point = _describe_changes(directory, first)
    changes = [_describe_changes(first, point.files) for point in points]
    changed_paths = sorted({path for entry in (every_point, *changes) for path in entry})
    entries = ",\n".join(
        "    {"
        f'\n      "label": {to_json(point.label)},'
        f'\n      "job": {to_json(point.job)},'
        f'\n      "overrides": {to_json(list(point.overrides))},'
        f'\n      "changes": {_format_by_path(entry, 6)}\n    }}'
        for point, entry in zip(points, changes, strict=True)
    )
    lines = {path: directory[path].count("\n") for path in changed_paths}
    return (
        f'{{\n  "schema": 1,\n  "lines": {to_json(lines)},\n  "every_point": {_format_by_path(every_point, 2)},\n'
        f'  "points": [\n{entries}\n  ]\n}}\n'
    )


def _describe_changes(before: Mapping[str, str], after: Mapping[str, str]) -> Changes:
    """Return the changes that turn `before` into `after`, starting with the files that people read first."""
    paths = sorted(after, key=lambda path: (path.startswith("."), path))
    return {
        path: dict(_changed_line_ranges(before[path], after[path])) for path in paths if before[path] != after[path]
    }


def _changed_line_ranges(before: str, after: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the lines that differ, as `7`, `7-9` or `7+`, with the lines that replace them."""
    a, b = before.split("\n"), after.split("\n")
    if len(a) == len(b):
        replaced = [index for index, line in enumerate(a) if line != b[index]]
        if len(replaced) <= MOST_REPLACED:
            yield from ((str(index + 1), [b[index]]) for index in replaced)
            return
    for kind, first, last, start, end in diff_opcodes(a, b):
        if kind == "insert":
            yield f"{first}+", b[start:end]
        elif kind != "equal":
            yield str(last) if last == first + 1 else f"{first + 1}-{last}", b[start:end]


def _format_by_path(changes: Changes, indent: int) -> str:
    if not changes:
        return "{}"
    rows = ",\n".join(f"{' ' * (indent + 2)}{to_json(path)}: {to_json(hunks)}" for path, hunks in changes.items())
    return f"{{\n{rows}\n{' ' * indent}}}"
