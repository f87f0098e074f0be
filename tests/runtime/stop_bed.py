"""An artifact of job demo for the tests of stop: stand-in engines and clients, and a clock that stop reads."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jobc.runtime.engines import live_runs
from jobc.runtime.engines.artifact_location import Place
from jobc.runtime.engines.engine import Answer, Engine
from jobc.runtime.run_folder.run import Run
from jobc.runtime.system.command_line import run_verb_until_ended
from jobc.runtime.verbs import stop

from .sample_runs import make_run, node

ENDED = {"attempt": 0, "ended": 5, "exit": 0}


class Clock:
    """Time that passes only in sleep(). then: functions that are called at a time."""

    def __init__(self) -> None:
        self.now, self.then = 0.0, dict[float, Callable[[], object]]()

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        for due in [due for due in self.then if due <= self.now]:
            self.then.pop(due)()


class Stop:
    """An artifact of job demo, whose engine is `engine`; calls: the commands of engine clients, as one text each."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self.capsys, self.monkeypatch = folder, capsys, monkeypatch
        self.artifact, self.clock, self.calls = folder / "artifacts/demo/x", Clock(), list[str]()
        (self.artifact / ".jobc").mkdir(parents=True)
        self.set(Engine)
        monkeypatch.setattr(sys, "argv", [str(self.artifact / "jobctl")])
        monkeypatch.setattr(live_runs, "time", self.clock)
        monkeypatch.setenv("HOME", str(folder))

    def set(self, engine: type[Engine], answer: Callable[[str], Answer | str] = lambda _: "", **settings: Any) -> None:
        """Choose the engine, its settings, and what its clients answer to a command."""

        def ask(_: Engine, words: list[str], *__: object, **___: object) -> Answer:
            self.calls.append(" ".join(words))
            answered = answer(" ".join(words))
            return answered if isinstance(answered, Answer) else Answer(0, answered, "")

        tree = {"job": "demo", "runs": "runs", "backend": "x", "nodes": 1, "grace_s": 30, "storage": "shared"}
        tree["place"] = "demo/x"
        (self.artifact / ".jobc/job.json").write_text(json.dumps({**tree, **settings}))
        self.monkeypatch.setattr(Place, "engine", lambda place: engine(place.job))
        self.monkeypatch.setattr(engine, "ask", ask)

    def run(self, name: str = "r", **texts: str) -> Run:
        return make_run(self.folder, name, **texts)

    def __call__(self, *words: str) -> tuple[int, str]:
        """Run stop. Return its exit code and output."""
        code = run_verb_until_ended(stop.main, [*words])
        printed = self.capsys.readouterr()
        return code, printed.out + printed.err

    def signals(self, what: str = "") -> list[str]:
        return [call for call in self.calls if what in call]


class Recorded(Engine):
    """Nodes that end when they get one of the signals in `ends_at`."""

    ends_at: tuple[str, ...] = ("TERM",)
    sent: list[tuple[str, str]] = []  # noqa: RUF012 - each test has a class of its own

    def signal_or_cancel(self, run: Run, name: str) -> None:
        assert (run.path / "control/STOP").is_file(), "signalled before it was marked"
        self.sent.append((run.id, name))
        if name in self.ends_at:
            (run.path / "state/node_00").write_text(node(**ENDED))


def recorded(*ends_at: str) -> type[Recorded]:
    return type("Own", (Recorded,), {"ends_at": ends_at, "sent": []})
