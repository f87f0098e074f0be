"""Finished runs of job demo, and jobctl clean in their artifact."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from jobc.runtime.run_folder.run import Run
from jobc.runtime.system.command_line import run_verb_until_ended
from jobc.runtime.verbs import clean

from .sample_runs import make_run, node

FOUR = ("a", "b", "c", "d")
ENDED = {"attempt": 0, "ended": 5, "exit": 0}


class Old:
    """An artifact of job demo in `folder`, and its finished runs a to d, the newest last."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self.runs, self.capsys = folder, folder / "runs/demo", capsys
        self.artifact = folder / "artifacts/demo/local"
        (self.artifact / ".jobc").mkdir(parents=True)
        self.set()
        monkeypatch.setattr(sys, "argv", [str(self.artifact / "jobctl")])
        for age, name in enumerate(FOUR):
            self.add(name, age=100 - age)

    def set(self, **settings: object) -> None:
        tree = {"job": "demo", "runs": "runs", "backend": "local", "nodes": 1, "place": "demo/local", **settings}
        (self.artifact / ".jobc/job.json").write_text(json.dumps(tree))

    def add(self, name: str, age: float = 0, init_from: str = "", **state: object) -> Run:
        about = f"job=demo\ncreated={int(time.time())}\ninit_from={init_from}\n"
        run = make_run(self.folder, name, state__run=about, state__node_00=node(**{**ENDED, **state}))
        os.utime(run.path / "artifact", (time.time() - age,) * 2)
        return run

    def clean(self, *words: str) -> tuple[int, str]:
        """Run clean. Return its exit code and output."""
        code = run_verb_until_ended(clean.main, [*words])
        printed = self.capsys.readouterr()
        return code, printed.out + printed.err

    def names(self) -> list[str]:
        return sorted(path.name for path in self.runs.iterdir())


@pytest.fixture
def old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Old:
    return Old(tmp_path, monkeypatch, capsys)


def size_of(old: Old) -> str:
    return subprocess.run(["du", "-sh", old.runs / "b"], capture_output=True, text=True, check=True).stdout.split()[0]
