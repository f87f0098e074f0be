"""Start a sweep's points one after another, or several at a time, each with its own `jobctl submit --point`.

In:  a new run of the sweep.
Out: a line on stdout when a point starts and when it ends, and RUN/logs/point_N.log with its jobctl submit's output.
Exit: 0, or 1 if a point could not be started or did not succeed, or 130 after Ctrl-C, which stops the points.
Without a limit, the loop ends when all points have been started.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from ..engines.new_sweep import NewSweep, print_sweep
from ..engines.sweep_engine import SUBMIT, PointRun, SweepEngine
from ..exit_codes import CRASHED, DONE, INTERRUPTED
from ..run_folder.run import identify_machine, quote_shell_word
from ..run_folder.run_folder import write_small_file
from ..system.processes import process_start_time
from ..system.text import one_line, printable
from ..system.values import read_text
from .sweep_points import stop_points

MOST_STARTING = 8  # maximum number of jobctl submit processes at a time
LOOK_S = 0.2  # pause between checks of whether a point has ended


class PointStarter:
    """Points that are waiting, starting and running. limit: how many points may run at a time, or None for all"""

    def __init__(self, sweep: NewSweep, limit: int | None, words: Sequence[str]) -> None:
        """words: options for each point's jobctl submit"""
        self.sweep, self.limit, self.words = sweep, limit, words
        self.waiting = _unfinished(sweep)
        self.starting: list[tuple[PointRun, subprocess.Popen[bytes]]] = []
        self.resumed = {point.run.path for point in self.waiting if point.is_started}
        self.running: list[PointRun] = []
        self.code = DONE
        self._asked_at = 0.0

    def run(self) -> int:
        """Start all points, and with a limit also wait until they have ended. Return the exit code."""
        while (self.waiting and not self.sweep.run.is_stopped) or self.starting or self.running:
            while self.waiting and not self.sweep.run.is_stopped and self._has_room():
                self._start(self.waiting.pop(0))
            self.move_started_to_running()
            if time.monotonic() - self._asked_at >= self.sweep.engine.live_every_s:
                self._collect_ended()
                self._asked_at = time.monotonic()
            time.sleep(LOOK_S)
        return self.code

    def _has_room(self) -> bool:
        if len(self.starting) >= MOST_STARTING:
            return False
        return self.limit is None or len(self.starting) + len(self.running) < self.limit

    def _start(self, point: PointRun) -> None:
        number, program = point.point.number, str(self.sweep.new.artifact / "jobctl")
        run = f"--{'resume' if point.is_started else 'run-id'}={point.run.id}"
        words = [sys.executable, "-I", "-S", program, "submit", f"--point={number}", run]
        with open(self._log(point), "wb") as log:
            process = subprocess.Popen(
                [*words, *self.words], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        self.starting.append((point, process))

    def _log(self, point: PointRun) -> str:
        return f"{self.sweep.run.path}/logs/point_{point.point.number}.log"

    def move_started_to_running(self) -> None:
        for point, process in [*self.starting]:
            code = process.poll()
            if code is None:
                continue
            self.starting.remove((point, process))
            if code and (not point.is_started or point.run.path in self.resumed):
                self.code = CRASHED
                _say(point, f"not started: {self._why(point)}")
            else:
                self.running += [point] if self.limit is not None else []
                _say(point, f"started, run {point.run.path}")

    def _why(self, point: PointRun) -> str:
        """Return the first error that a point's jobctl submit printed, with its hint."""
        lines = read_text(Path(self._log(point))).splitlines()
        errors = (index for index, line in enumerate(lines) if line.startswith("error: "))
        index = next(errors, None)
        if index is None:
            return f"see {quote_shell_word(self._log(point))}"
        return "; ".join(line.strip() for line in lines[index : index + 2])

    def _collect_ended(self) -> None:
        if not self.running:
            return
        engine, runs = SweepEngine(self.sweep.engine).query_again([point.run for point in self.running])
        for index, run in reversed(list(enumerate(runs))):
            state = engine.state(run)
            if not state.is_live:
                point = self.running.pop(index)
                self.code = self.code if state.exit_code == DONE else CRASHED
                _say(point, state.text)


def _unfinished(sweep: NewSweep) -> list[PointRun]:
    """Return the points that have not been started, or that have ended unsuccessfully."""
    engine = SweepEngine(sweep.engine)
    engine.fetch("state", [sweep.run])
    engine.prepare([sweep.run])
    states = [(point, engine.state_of(point)) for point in engine.points(sweep.run)]
    return [point for point, state in states if not state.is_live and state.name != "done"]


def _say(point: PointRun, text: str) -> None:
    print(f"point {point.point.number}  {printable(point.point.label)}: {one_line(text)}", flush=True)


def start_points(sweep: NewSweep, limit: int | None, words: Sequence[str]) -> int:
    """Start the points of a sweep's new run, and return submit's exit code."""
    sweep.new.keep_for_logs()
    loop = PointStarter(sweep, limit, words)
    if not loop.waiting:
        print(f"sweep {sweep.run.id}: every point is live or has succeeded")
        return DONE
    submit = sweep.run.path / SUBMIT
    write_small_file(
        submit, keys={**identify_machine(), "pid": os.getpid(), "start_ticks": process_start_time(os.getpid())}
    )
    at_a_time = "" if limit is None else f", {limit} at a time"
    print_sweep(sweep, f"{len(loop.waiting)} points{at_a_time}")
    try:
        code = loop.run()
        if sweep.run.is_stopped:
            stop_points(SweepEngine(sweep.engine), sweep.run)
        return code
    except KeyboardInterrupt:
        print("stopping the points; press Ctrl-C again to leave them running", file=sys.stderr)
        for _, process in loop.starting:
            process.wait()
        stop_points(SweepEngine(sweep.engine), sweep.run)
        return INTERRUPTED
    finally:
        for _, process in loop.starting:
            process.terminate()
        with contextlib.suppress(OSError):
            submit.unlink()
