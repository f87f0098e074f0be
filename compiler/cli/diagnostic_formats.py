"""Print diagnostics for machines: `--format json` and `github`. diagnostic.py prints text for people.

In:  diagnostics, and the folder of each root that their positions refer to.
Out: one document, sorted by position and always the same for the same input. It includes allowed diagnostics and marks
them.

Source: GitHub Actions, "Workflow commands": ::error file=…,line=…,col=…,title=…::text; file= is relative to the
        repository root.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..diagnostics.diagnostic import Diagnostic, Severity, describe_sweep_points, merge_equal_diagnostics
from ..diagnostics.origin import COMMAND_LINE, Origin, escape_to_one_line
from ..plugins.registry import code_name
from .terminal import to_printable_json

Folders = Mapping[str, Path]  # an origin's root -> its folder


def path_in_report(origin: Origin | None, folders: Folders) -> str:
    """Return the file's path, relative below the current directory; "" unless it is one of the user's files."""
    if origin is None or origin.root == COMMAND_LINE:
        return ""
    if origin.root == "file":  # hosts=@FILE, as typed
        return origin.path
    if origin.root not in folders:
        return ""
    path = os.path.abspath(folders[origin.root] / origin.path)
    relative = os.path.relpath(path)
    return path if relative.startswith("..") else relative


def _repository_relative(file: str) -> str:
    """Return the path relative to the repository root if a GitHub workflow checked it out; otherwise unchanged."""
    workspace = os.environ.get("GITHUB_WORKSPACE")
    for root in (os.path.abspath(workspace), os.path.realpath(workspace)) if file and workspace else ():
        relative = os.path.relpath(file, root)
        if relative.split(os.sep)[0] != os.pardir:
            return relative
    return file


def format_diagnostics_as_json(found: Sequence[Diagnostic], folders: Folders) -> str:
    """Return {"version": 1, "diagnostics": [{code, name, severity, title, because, hint, key, place, points, …}]}."""
    return to_printable_json(
        {"version": 1, "diagnostics": [_to_json_object(d, folders) for d in merge_equal_diagnostics(found)]}
    )


def _to_json_object(d: Diagnostic, folders: Folders) -> dict[str, Any]:
    plain: dict[str, Any] = {"code": d.code, "name": code_name(d.code), "severity": d.severity.value, "title": d.title}
    plain |= {"because": d.because, "hint": d.hint_for_place, "key": d.key, "place": None}
    if d.origin:
        source = {"root": d.origin.root, "path": d.origin.path, "file": path_in_report(d.origin, folders)}
        plain["place"] = {**source, "line": d.origin.line, "column": d.origin.column}
    return {**plain, "points": list(d.points), "otherwise": list(d.otherwise), "allowed": d.allowed}


def format_diagnostics_for_github(found: Sequence[Diagnostic], folders: Folders) -> str:
    """Return one workflow command per diagnostic; GitHub shows it inline, on that line of the file."""
    return "".join(f"{_github_annotation(d, folders)}\n" for d in merge_equal_diagnostics(found) if not d.allowed)


def _github_annotation(d: Diagnostic, folders: Folders) -> str:
    level = "notice" if d.severity is Severity.NOTE else d.severity.value
    named: dict[str, object] = {}
    if file := _repository_relative(path_in_report(d.origin, folders)):
        named["file"] = file
    if file and d.origin and d.origin.line:
        named |= {"line": d.origin.line, "col": d.origin.column}
    named["title"] = f"{d.code} {code_name(d.code)}".strip()
    properties = ",".join(
        f"{name}={_escape_for_github(escape_to_one_line(str(value)), ':,')}" for name, value in named.items()
    )
    prefix = f"{d.origin}: " if d.origin and not file else ""
    return f"::{level} {properties}::{_escape_for_github(escape_to_one_line(prefix) + _message_text(d))}"


def _escape_for_github(text: str, more: str = "") -> str:
    return "".join(f"%{ord(c):02X}" if c in f"%\r\n{more}" else c for c in text)


def _message_text(d: Diagnostic) -> str:
    lines = [d.title]
    named = (("because", d.because), ("hint", d.hint_for_place), ("points", describe_sweep_points(d)))
    lines += [f"{name}: {text}" for name, text in named if text]
    return "\n".join(map(escape_to_one_line, lines))


FORMATS: dict[str, Callable[[Sequence[Diagnostic], Folders], str]] = {
    "json": format_diagnostics_as_json,
    "github": format_diagnostics_for_github,
}
