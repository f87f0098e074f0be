"""Start all of a sweep's points as one run of the sweep, or start one of its points.

In:  a sweep's artifact: its first point's files, and points.json.
Out: RUN_ROOT/NAME+sweep/ID for the sweep, and RUN_ROOT/JOB/ID-N for each point, with point N's artifact. Unless the
     engine starts all points itself, each one has its own `jobctl submit --point`, with a line on stdout when it starts
     and when it ends, and its output in logs/point_N.log. Without a limit, this ends when all points have been started.
Exit: 0, or 1 if a point could not be started or did not succeed, or 130 after Ctrl-C, which stops the points.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from ..engines.artifact_location import Place, add_point_option, require_own_run
from ..engines.new_run import NewRun, create_run
from ..engines.new_sweep import NewSweep, point_artifact, print_sweep
from ..engines.starting_engine import StartingEngine, starting_engine, warn_of_edited_files
from ..engines.sweep_engine import SUBMIT, PointRun, SweepEngine, is_submitting
from ..exit_codes import CRASHED, DONE, INTERRUPTED
from ..run_folder.points_file import SweepPoints, read_points
from ..run_folder.run import quote_shell_word
from ..run_folder.run_folder import write_small_file
from ..system.command_line import Parser
from ..system.failure import Failure
from ..system.processes import identify_this_process
from ..system.text import one_line, printable
from ..system.values import read_text
from .submit import parser, require_consistent_options, start_attempt
from .sweep_points import stop_points

OF_ONE_POINT = ("--fork", "--run-id", "--new-code", "--only-prepare", "--detach", "--here", "--env")
MOST_STARTING = 8  # maximum number of jobctl submit processes at a time
LOOK_S = 0.2  # pause between checks of whether a point has ended


def submit_sweep(place: Place, argv: list[str], arguments: Sequence[str]) -> int:
    """Start what the options select, and return jobctl submit's exit code.

    arguments: appended to the user's command, for a single point.
    """
    points, engine = read_points(place.artifact), starting_engine(place)
    if any(word == "--point" or word.startswith("--point=") for word in argv):
        return _submit_point(place, engine, points, argv, arguments)
    if arguments:
        raise Failure("arguments after -- need --point: each point is a separate run", "jobctl submit --help", 2)
    options, words = _sweep_parser(engine).parse_known_args(argv)
    if one := next((word for word in words if word.partition("=")[0] in OF_ONE_POINT), None):
        raise Failure(f"{one} needs --point: each point is a separate run", "jobctl submit --help", 2)
    of_point = parser(engine).parse_args(words)
    if place.own_run is not None:
        raise Failure("this is a submitted sweep's copy of the artifact", "call the artifact's jobctl submit", 2)
    warn_of_edited_files(place)
    resume = options.resume
    with _continue_sweep(place, engine, resume) if resume else create_run(place, SweepEngine(engine)) as new:
        if not options.resume:
            new.write_description("")
        words += ["--detach"] if hasattr(of_point, "detach") else []
        sweep = NewSweep(place, engine, new, points)
        code = engine.start_points(sweep, options, words)
        return start_points(sweep, options.parallel, words) if code is None else code


def _continue_sweep(place: Place, engine: StartingEngine, named: str) -> NewRun:
    sweep = require_own_run(place.choose_run(named))
    if is_submitting(sweep):
        raise Failure(
            f"another jobctl submit is starting the points of sweep {sweep.id}",
            "wait for that submit; or stop the sweep with jobctl stop",
        )
    with contextlib.suppress(FileNotFoundError):
        (sweep.path / "control/STOP").unlink()
    return NewRun(place, SweepEngine(engine), sweep, sweep.attempt or 0)


def _sweep_parser(engine: StartingEngine) -> Parser:
    end = "For options that apply to each point, see jobctl submit --point 0 --help."
    words = Parser("submit", "Start each point of the sweep as a separate run.", end)
    add_point_option(words, engine, "all points")
    text = "in that run of the sweep, start the points that never started and resume those that failed or stopped early"
    words.add_argument("--resume", metavar="ID", default="", help=text)
    engine.add_sweep_arguments(words)
    return words


def _submit_point(
    place: Place, engine: StartingEngine, points: SweepPoints, argv: list[str], arguments: Sequence[str]
) -> int:
    words = parser(engine)
    add_point_option(words, engine, "all points")
    options = words.parse_args(argv)
    require_consistent_options(options)
    with point_artifact(place, points, points.find_point(options.point)) as own:
        return start_attempt(own, starting_engine(own), options, arguments, is_temporary=True)


# ---- starting the points


class PointStarter:
    """Points that are waiting, starting and running. limit: how many points may run at a time, or None for all"""

    def __init__(self, sweep: NewSweep, limit: int | None, words: Sequence[str]) -> None:
        """words: options for each point's jobctl submit"""
        self.sweep, self.limit, self.words = sweep, limit, words
        self.waiting = _list_unfinished_points(sweep)
        self.starting: list[tuple[PointRun, subprocess.Popen[bytes]]] = []
        self.resumed = {point.run.path for point in self.waiting if point.is_started}
        self.running: list[PointRun] = []
        self.code = DONE
        self._asked_at = 0.0

    def run(self) -> int:
        """Start all points, and with a limit also wait until they have ended. Return the exit code."""
        while (self.waiting and not self.sweep.run.is_stopped) or self.starting or self.running:
            while self.waiting and not self.sweep.run.is_stopped and self._has_room():
                self._start_point(self.waiting.pop(0))
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

    def _start_point(self, point: PointRun) -> None:
        number, program = point.point.number, str(self.sweep.new.artifact / "jobctl")
        run = f"--{'resume' if point.is_started else 'run-id'}={point.run.id}"
        words = [sys.executable, "-I", "-S", program, "submit", f"--point={number}", run]
        with open(self._log_path(point), "wb") as log:
            process = subprocess.Popen(
                [*words, *self.words], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        self.starting.append((point, process))

    def _log_path(self, point: PointRun) -> str:
        return f"{self.sweep.run.path}/logs/point_{point.point.number}.log"

    def move_started_to_running(self) -> None:
        for point, process in [*self.starting]:
            code = process.poll()
            if code is None:
                continue
            self.starting.remove((point, process))
            if code and (not point.is_started or point.run.path in self.resumed):
                self.code = CRASHED
                _print_for_point(point, f"not started: {self._first_error(point)}")
            else:
                self.running += [point] if self.limit is not None else []
                _print_for_point(point, f"started, run {point.run.path}")

    def _first_error(self, point: PointRun) -> str:
        """Return the first error that a point's jobctl submit printed, with its hint."""
        lines = read_text(Path(self._log_path(point))).splitlines()
        errors = (index for index, line in enumerate(lines) if line.startswith("error: "))
        index = next(errors, None)
        if index is None:
            return f"see {quote_shell_word(self._log_path(point))}"
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
                _print_for_point(point, state.text)


def _list_unfinished_points(sweep: NewSweep) -> list[PointRun]:
    """Return the points that have not been started, or that have ended unsuccessfully."""
    engine = SweepEngine(sweep.engine)
    engine.fetch("state", [sweep.run])
    engine.query_runs([sweep.run])
    states = [(point, engine.state(point.run)) for point in engine.points_of_run(sweep.run)]
    return [point for point, state in states if not state.is_live and state.name != "done"]


def _print_for_point(point: PointRun, text: str) -> None:
    print(f"point {point.point.number}  {printable(point.point.label)}: {one_line(text)}", flush=True)


def start_points(sweep: NewSweep, limit: int | None, words: Sequence[str]) -> int:
    """Start the points of a sweep's new run, and return submit's exit code."""
    sweep.new.keep_for_logs()
    loop = PointStarter(sweep, limit, words)
    if not loop.waiting:
        print(f"sweep {sweep.run.id}: every point is live or has succeeded")
        return DONE
    submit = sweep.run.path / SUBMIT
    write_small_file(submit, keys=identify_this_process())
    at_a_time = "" if limit is None else f", {limit} at a time; this command waits until all have ended"
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
