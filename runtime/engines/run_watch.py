"""Check repeatedly whether runs are live. If an engine stops responding, report that once and keep querying it."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

from ..run_folder.run import Run
from ..system.failure import Failure
from .engine import Engine

MOST_RUNS = 20  # how many of the newest runs live_run_ids() checks


class RunWatch:
    """Watches one job's runs. engine, runs: as of the last query"""

    def __init__(self, engine: Engine, runs: Sequence[Run], is_patient: bool = False) -> None:
        """is_patient: whether to wait for an engine that has never responded"""
        self.engine, self.runs = engine, list(runs)
        self._has_answered, self._is_silent = is_patient, False

    def is_live(self) -> bool:
        return bool(self.live_runs())

    def live_runs(self) -> list[Run]:
        """Return the runs that are live. Raises Failure if the engine has never responded, unless is_patient."""
        self.engine, self.runs = self.engine.query_again(self.runs)
        states = [(run, self.engine.state(run)) for run in self.runs]
        silence = next((state.reason or state.text for _, state in states if state.name == "unknown"), "")
        if silence and not self._has_answered:
            raise Failure(silence, "try again when the engine responds")
        if silence and not self._is_silent:
            print(f"{silence}; asking again", file=sys.stderr, flush=True)
        self._has_answered, self._is_silent = True, bool(silence)
        return [run for run, state in states if state.is_live]

    def wait_until_ended(self, longest_s: float, pause_s: float) -> list[Run]:
        """Wait at most longest_s until all runs have ended. Return the runs that are still live."""
        until = time.monotonic() + longest_s
        while True:
            live = self.live_runs()
            if not live or time.monotonic() >= until:
                return live
            time.sleep(pause_s)


def live_run_ids(engine: Engine, runs: list[Run]) -> list[str]:
    """Return the IDs of this user's live runs among the 20 newest. Hosts are queried only about the newest run."""
    newest = [run for run in runs[:MOST_RUNS] if run.is_mine]
    engine.fetch("state", newest[:1])
    engine.prepare(newest)
    return [run.id for run in newest if engine.state(run).name in ("queued", "starting", "live", "stopping")]
