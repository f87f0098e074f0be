"""Fixture `jobc`: the command line in this process, for a user with an empty home and an empty folder."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jobc.compiler.cli import main
from jobc.tests.quick_jobc import QuickJobc

from .diagnosed import INTERNALS, Jobc
from .shell import Shell

Plan = Callable[..., "tuple[int, str, str]"]


@pytest.fixture
def jobc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Jobc:
    """Return a function: words -> (exit code, stderr), in an empty folder with a fresh HOME."""
    (tmp_path / "home").mkdir()
    (tmp_path / "work").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.chdir(tmp_path / "work")

    def run(*words: str) -> tuple[int, str]:
        status = main(words)
        printed = capsys.readouterr().err
        assert not [name for name in INTERNALS if name in printed], printed
        assert all(c.isprintable() or c == "\n" for c in printed), "control characters of the user's text"
        return status, printed

    return run


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Plan:
    """Return a function: words of `jobc plan` -> (exit code, stdout, stderr), in an empty folder with a fresh HOME."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> tuple[int, str, str]:
        status = main(["plan", *words])
        return (status, *capsys.readouterr())

    return run


@pytest.fixture
def shell(tmp_path: Path, quick_jobc: QuickJobc) -> Shell:
    return Shell(tmp_path, quick_jobc)


def figures(plan: Plan, *words: str) -> list[dict[str, Any]]:
    """Return the figures that `jobc plan` prints as JSON, one entry per size."""
    status, printed, said = plan(*words, "--format", "json")
    assert (status, said) == (0, "")
    found: list[dict[str, Any]] = json.loads(printed)
    return found
