"""Interface to experiment trackers. Rank 0 sends metrics to them. A tracker can neither stop nor slow down training.

    metrics.trackers: [tensorboard, mlflow, wandb, my.module:Tracker]

Each tracker is one file in this package, or a user's class that is called with a TrackedRun. In each tracker, a run has
one entry for all its attempts, which is found by the run's ID. All trackers run in one separate thread. A tracker that
raises an exception is disabled with one warning. If a tracker blocks, for example without a network, the trainer waits
for it at most CLOSE_S at the end. For offline use, set WANDB_MODE=offline, or MLFLOW_TRACKING_URI to a folder.
"""

import importlib
import queue
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from ...runtime.system.frozen_dataclass import dataclass

CLOSE_S = 10.0  # how long the trainer waits at the end for trackers to accept the last metrics
MOST_WAITING = 1000  # maximum number of queued calls while a tracker blocks; further calls are dropped


@dataclass(frozen=True)
class TrackedRun:
    """A run's description, for trackers.

    id:     JOBC_RUN_ID, the same for all attempts.
    job:    name of the job.
    folder: the run folder.
    step:   number of finished steps when this attempt starts. Metrics that an earlier attempt logged for later steps
            are obsolete.
    config: train.json.
    """

    id: str
    job: str
    folder: Path
    step: int
    config: Mapping[str, Any]


class Tracker(Protocol):
    """One open run in one tracker. All calls come from the same thread."""

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Log the metrics after optimizer step `step`, by name: train/loss, val/loss, speed/tokens_per_s, …"""

    def close(self, done: bool) -> None:
        """Close the tracker. done: whether training has finished. If false, a later attempt may continue this run."""


class Trackers:
    """All trackers of a run. Only close() blocks."""

    def __init__(self, names: Sequence[str], run: TrackedRun) -> None:
        self._queue: queue.Queue[Callable[[Tracker], None] | None] = queue.Queue(MOST_WAITING)
        self._busy = ""  # name of the tracker that is being called
        self._thread = threading.Thread(target=self._serve_queue, args=(names, run), name="trackers", daemon=True)
        if names:
            self._thread.start()

    def log(self, step: int, values: Mapping[str, float]) -> None:
        if self._thread.is_alive() and not self._queue.full():
            self._queue.put(lambda tracker: tracker.log(step, dict(values)))  # a copy, which the tracker may change

    def close(self, done: bool) -> None:
        """Close all trackers, waiting at most CLOSE_S."""
        if self._thread.is_alive() and not self._queue.full():
            self._queue.put(lambda tracker: tracker.close(done))
            self._queue.put(None)
            self._thread.join(CLOSE_S)
        if self._thread.is_alive():
            subject = f"tracker {self._busy}" if self._busy else "trackers"
            print_warning(f"{subject} did not accept everything within {CLOSE_S:.0f} s; all numbers are in metrics/")

    def _serve_queue(self, names: Sequence[str], run: TrackedRun) -> None:
        opened: dict[str, Tracker] = {}
        for name in names:
            self._busy = name
            call_or_warn(name, lambda name=name: opened.update({name: tracker_factory(name)(run)}))  # type: ignore[misc]
        while opened and (message := self._queue.get()) is not None:
            for name, tracker in list(opened.items()):
                self._busy = name
                if not call_or_warn(name, lambda tracker=tracker: message(tracker)):  # type: ignore[misc]
                    del opened[name]


def tracker_factory(name: str) -> Callable[[TrackedRun], Tracker]:
    """Return the factory of a tracker: `module:attribute`, or open_run() of a module in this package."""
    module, _, attribute = name.partition(":")
    if not attribute:
        module, attribute = f"{__name__}.{module}", "open_run"
    factory: Callable[[TrackedRun], Tracker] = getattr(importlib.import_module(module), attribute)
    return factory


def call_or_warn(name: str, action: Callable[[], object]) -> bool:
    """Call a function, print an error as a warning, and return whether the call succeeded."""
    try:
        action()
    except (Exception, SystemExit) as error:  # any failure of a tracker, its network or its server
        print_warning(f"tracker {name} is disabled from now on: {type(error).__name__}: {error}")
        return False
    return True


def print_warning(text: str) -> None:
    """Print the first line of `text` as a warning. Called on rank 0."""
    print(f"warning: {text.splitlines()[0]}", file=sys.stderr, flush=True)
