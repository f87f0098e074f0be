"""Start all of a sweep's points as one run of the sweep, or start one of its points.

In:  a sweep's artifact: its first point's files, and points.json.
Out: RUN_ROOT/NAME+sweep/ID for the sweep, and RUN_ROOT/JOB/ID-N for each point, with point N's artifact.
"""

from __future__ import annotations

import contextlib

from ..engines.artifact_location import Place, add_point_option, require_own_run
from ..engines.new_run import NewRun, create_run
from ..engines.new_sweep import NewSweep, point_artifact
from ..engines.starting_engine import StartingEngine, starting_engine
from ..engines.sweep_engine import SweepEngine, is_submitting
from ..run_folder.points_file import SweepPoints, read_points
from ..system.command_line import Parser
from ..system.failure import Failure
from .submit import parser, require_consistent_options, start_attempt
from .sweep_loop import start_points

OF_ONE_POINT = ("--fork", "--run-id", "--new-code", "--only-prepare", "--detach", "--here")


def submit_sweep(place: Place, argv: list[str]) -> int:
    """Start what the arguments select, and return jobctl submit's exit code."""
    points, engine = read_points(place.artifact), starting_engine(place)
    if any(word == "--point" or word.startswith("--point=") for word in argv):
        return _submit_point(place, engine, points, argv)
    options, words = _sweep_parser(engine).parse_known_args(argv)
    if one := next((word for word in words if word.partition("=")[0] in OF_ONE_POINT), None):
        raise Failure(f"{one} needs --point: each point is a separate run", "jobctl submit --help", 2)
    of_point = parser(engine).parse_args(words)
    if place.own_run is not None:
        raise Failure("this is a submitted sweep's copy of the artifact", "call the artifact's jobctl submit", 2)
    resume = options.resume
    with _continue_sweep(place, engine, resume) if resume else create_run(place, SweepEngine(engine)) as new:
        if not options.resume:
            new.describe("")
        words += ["--detach"] if hasattr(of_point, "detach") else []
        sweep = NewSweep(place, engine, new, points)
        code = engine.start_points(sweep, options, words)
        return start_points(sweep, options.parallel, words) if code is None else code


def _continue_sweep(place: Place, engine: StartingEngine, named: str) -> NewRun:
    sweep = require_own_run(place.choose_run(named))
    if is_submitting(sweep):
        raise Failure(f"another jobctl submit is starting the points of sweep {sweep.id}", "jobctl stop ends it")
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


def _submit_point(place: Place, engine: StartingEngine, points: SweepPoints, argv: list[str]) -> int:
    words = parser(engine)
    add_point_option(words, engine, "all points")
    options = words.parse_args(argv)
    require_consistent_options(options)
    with point_artifact(place, points, points.find(options.point)) as own:
        return start_attempt(own, starting_engine(own), options, is_temporary=True)
