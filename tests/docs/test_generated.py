"""The generated pages are those that conf, code and code pages give now."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from jobc.compiler.spec.job_spec import JobSpec
from jobc.compiler.spec.type_hints import spec_keys
from jobc.trainer.dist import env

from .conftest import ROOT

DOCS = [sys.executable, str(ROOT / "tools" / "docs.py")]


def test_no_generated_page_is_stale() -> None:
    done = subprocess.run([*DOCS, "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_key_has_a_row() -> None:
    text = (ROOT / "docs" / "keys.md").read_text(encoding="utf-8")
    sections = {key.rpartition(".")[0] for key in spec_keys(JobSpec)}
    assert [key for key in spec_keys(JobSpec) if key not in sections and f"| `{key}` |" not in text] == []


def test_every_variable_has_a_row() -> None:
    text = (ROOT / "docs" / "environment.md").read_text(encoding="utf-8")
    assert all(f"| `{row.name}` | {row.setter} |" in text for row in env.TABLE)


@pytest.mark.parametrize("file", sorted((ROOT / "docs" / "figures").glob("*.svg")), ids=lambda file: file.stem)
def test_a_figure_is_plain_svg_with_a_title(file: Path) -> None:
    root = ElementTree.parse(file).getroot()
    tags = {element.tag.partition("}")[2] for element in root.iter()}
    assert tags <= {"svg", "title", "defs", "marker", "path", "rect", "text", "polyline"} and "title" in tags
    assert "href" not in file.read_text(encoding="utf-8")
