"""The door to experiment trackers: rank 0 hands them numbers, and nothing that they do can stop or slow the training.

    metrics.trackers: [tensorboard, mlflow, wandb, my.module:Tracker]

Each is one file here, or a class of the user's own, called with a TrackedRun. A run has one entry in a tracker, over
all its attempts: it is found again by the run's id. All run in one thread of their own. A tracker that raises is left
out from then on, with one warning; one that blocks, as for want of a network, is not waited for at the end. Offline
modes are the tracker's own: WANDB_MODE=offline, or an MLFLOW_TRACKING_URI that is a folder.
"""

import importlib
import queue
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

CLOSE_S = 10.0  # that the end of training waits for the last numbers to be handed on
MOST_WAITING = 1000  # numbers for a tracker that blocks; what comes after is not kept


@dataclass(frozen=True)
class TrackedRun:
    """Run description for trackers.

    id      JOBC_RUN_ID: the same for all attempts
    job     name of the job
    folder  the run folder
    step    steps done when this attempt begins; numbers of later steps, of an earlier attempt, no longer count
    config  train.json
    """

    id: str
    job: str
    folder: Path
    step: int
    config: Mapping[str, Any]


class Tracker(Protocol):
    """One open run in one tracker. Called from one thread."""

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Numbers after optimizer step `step`, by name: train/loss, val/loss, speed/tokens_per_s, …"""

    def close(self, done: bool) -> None:
        """Close the tracker. done: training finished; otherwise a later attempt may continue this run"""


class Trackers:
    """All trackers of a run. Returns at once from everything but close()."""

    def __init__(self, names: Sequence[str], run: TrackedRun) -> None:
        self._queue: queue.Queue[Callable[[Tracker], None] | None] = queue.Queue(MOST_WAITING)
        self._busy = ""  # which tracker is being told something
        self._thread = threading.Thread(target=self._serve, args=(names, run), name="trackers", daemon=True)
        if names:
            self._thread.start()

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Queue the values for Tracker.log."""
        if self._thread.is_alive() and not self._queue.full():
            self._queue.put(lambda tracker: tracker.log(step, dict(values)))  # a copy, which is the tracker's own

    def close(self, done: bool) -> None:
        """Wait for CLOSE_S at most."""
        if self._thread.is_alive() and not self._queue.full():
            self._queue.put(lambda tracker: tracker.close(done))
            self._queue.put(None)
            self._thread.join(CLOSE_S)
        if self._thread.is_alive():
            subject = f"tracker {self._busy}" if self._busy else "trackers"
            warn(f"{subject} did not accept everything within {CLOSE_S:.0f} s; all numbers are in metrics/")

    def _serve(self, names: Sequence[str], run: TrackedRun) -> None:
        opened: dict[str, Tracker] = {}
        for name in names:
            self._busy = name
            succeeds_or_warns(name, lambda name=name: opened.update({name: tracker_factory(name)(run)}))  # type: ignore[misc]
        while opened and (message := self._queue.get()) is not None:
            for name, tracker in list(opened.items()):
                self._busy = name
                if not succeeds_or_warns(name, lambda tracker=tracker: message(tracker)):  # type: ignore[misc]
                    del opened[name]


def tracker_factory(name: str) -> Callable[[TrackedRun], Tracker]:
    """Return the factory of the tracker with that name."""
    module, _, attribute = name.partition(":")
    if not attribute:
        module, attribute = f"{__name__}.{module}", "open_run"
    opens: Callable[[TrackedRun], Tracker] = getattr(importlib.import_module(module), attribute)
    return opens


def succeeds_or_warns(name: str, action: Callable[[], object]) -> bool:
    """Call a function, turn an error into a warning, and return whether it succeeded."""
    try:
        action()
    except (Exception, SystemExit) as error:  # whatever a tracker, its network or its server does
        warn(f"tracker {name} is disabled from now on: {type(error).__name__}: {error}")
        return False
    return True


def warn(text: str) -> None:
    """Print one warning, on rank 0."""
    print(f"warning: {text.splitlines()[0]}", file=sys.stderr, flush=True)
