"""A plugin imports from three modules of jobc: its code from compiler.api, its engine.py (packed into jobctl) from
runtime.engines.api, and its tests from compiler.testing.suite.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from jobc.compiler import api
from jobc.compiler.testing import suite
from jobc.runtime.engines import api as engines

ACME = Path(__file__).parent / "acme"
DOORS = {"acme_jobc/[!e]*.py": api, "acme_jobc/engine.py": engines, "tests/**/*.py": suite}


@pytest.mark.parametrize("files", DOORS)
def test_the_example_imports_from_its_door_alone(files: str) -> None:
    found = {}
    for file in ACME.glob(files):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name: set[str]() for alias in node.names if alias.name.startswith("jobc")}
            elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("jobc"):
                found.setdefault(str(node.module), set()).update(alias.name for alias in node.names)
    assert found.keys() == {DOORS[files].__name__}
    assert found[DOORS[files].__name__] <= set(DOORS[files].__all__)


@pytest.mark.parametrize("door", DOORS.values(), ids=lambda door: door.__name__)
def test_a_door_has_what_it_names(door: object) -> None:
    names = door.__all__  # type: ignore[attr-defined]
    assert len(names) == len(set(names))
    assert not [name for name in names if not hasattr(door, name)]


def test_the_names_of_the_door_are_those_that_plugins_rely_on() -> None:
    """Removing a name breaks plugins, so the commit must mention it. A new name is welcome here."""
    assert set(api.__all__) >= {
        "ANY", "NODE_LAUNCHERS", "VERBS", "Artifact", "Backend", "Bytes", "Count", "CountOrZero",
        "Diagnostic", "Duration", "Given", "LaunchPlan", "Leaf", "Omit", "Path",
        "Point", "Render", "RuntimeVar", "Scope", "Severity", "ShellCode",
        "Spelling", "findings", "nearest", "of", "run_all", "sh",
    }  # fmt: skip
