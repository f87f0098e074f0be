"""Stop a run for good: it saves, exits with 0, and is not restarted. For a sweep, stop all points.

Exit:  0, or 1 if no run or more than one is live or the run does not end, or 2 for an invalid option.
"""

from __future__ import annotations

import argparse

from ..engines.artifact_location import Place, add_point_option, require_own_run
from ..engines.engine import Engine
from ..engines.live_runs import RunWatch
from ..run_folder.run import Run
from ..system.command_line import Parser
from ..system.failure import Failure
from ..system.text import one_line, print_line


def main(argv: list[str]) -> int:
    place = Place.of_this_program()
    engine = place.watching_engine()
    options = parser(engine).parse_args(argv)
    if options.point is not None:
        place, options.run = place.location_of_point(options.point, options.run), ""
        engine = place.engine()
    if place.is_sweep:
        from .sweep_points import stop_points  # only in a sweep's jobctl

        stop_points(engine, require_own_run(place.choose_run(options.run)), options.now, options.down)
    elif engine.has_machines:
        _stop_and_release(place, engine, options)
    else:
        watch = _watch_live_run(place, engine, options.run)
        if not _stop_run(watch, options.now):
            raise _still_running_failure(watch)
    return 0


def parser(engine: Engine) -> Parser:
    words = Parser("stop", "Stop a run: its ranks get SIGTERM and time to save. It is not restarted.")
    text = "ID or path of the run; default: the live run. For a sweep: the newest"
    words.add_argument("--run", metavar="ID", default="", help=text)
    text = "kill the run immediately: work since the last checkpoint is lost"
    add_point_option(words, engine, "all points")
    words.add_argument("--now", action="store_true", help=text)
    words.set_defaults(down=False)
    if engine.has_machines:
        text = (
            "after the stop, delete the cluster and everything else that runs on it; if no run is "
            "live, only delete the cluster"
        )
        words.add_argument("--down", action="store_true", help=text)
    return words


# ---- which run


def _watch_live_run(place: Place, engine: Engine, named: str) -> RunWatch:
    """Watch the named run, or the run that contains this artifact, or this user's only live run.

    Raises Failure if no run or more than one is live, or if it belongs to another user.
    """
    if named or place.own_run is not None:
        watch = RunWatch(engine, [require_own_run(place.choose_run(named))])
        if not watch.is_live():
            raise Failure(f"run {watch.runs[0].id} is not live: {_describe_end(watch)}")
        return watch
    watch = _watch_own_runs(place, engine)
    live = watch.live_runs()
    if not live:
        raise Failure(f"job {place.job.name} has no live run in {place.job.runs}")
    if len(live) > 1:
        names = " ".join(run.id for run in live)
        raise Failure(f"job {place.job.name} has {len(live)} live runs: {names}", f"jobctl stop --run {live[0].id}")
    watch.runs = live
    return watch


def _watch_own_runs(place: Place, engine: Engine) -> RunWatch:
    return RunWatch(engine, [run for run in place.list_runs() if run.is_mine])


# ---- how to stop it


def _stop_run(watch: RunWatch, is_now: bool) -> bool:
    """Stop a live run, and print how it ended. Return False if it does not end."""
    (run,) = watch.runs
    if end_runs(watch, f"run {run.id}", is_now):
        return False
    print_line(f"run {run.id}: {_describe_end(watch)}")
    return True


def end_runs(watch: RunWatch, name: str, is_now: bool) -> list[Run]:
    """Stop the watched runs, which are live. Return those that do not end. is_now: whether to kill them immediately"""
    engine, live = watch.engine, watch.runs
    for run in live:  # all are marked first, so that no point of a sweep starts in place of one that has ended
        engine.mark_stopped(run)
    is_killed = False
    for signal, wait_s in engine.stop_signals_and_waits():
        if not live or (signal == "TERM" and is_now):
            continue
        if signal == "TERM":
            print_line(f"stopping {name}: it has {engine.grace_s} s to exit")
        elif not is_killed:
            print_line(f"killing {name}")
            is_killed = True
        for run in live:
            watch.engine.signal_or_cancel(run, signal)
        live = watch.wait_until_ended(wait_s, engine.stop_every_s)
        if live and signal == "TERM":
            print_line(f"still running after {wait_s} s")
    return live


def _describe_end(watch: RunWatch) -> str:
    """Return how the run ended, and also why if work was lost."""
    engine, (run,) = watch.engine, watch.runs
    state = engine.state(run)
    reason = engine.reason_line(run, state)
    return f"{state.text}: {reason}" if reason else state.text


def _still_running_failure(watch: RunWatch) -> Failure:
    return Failure(f"run {watch.runs[0].id} is still running", watch.engine.no_end_hint)


def _stop_and_release(place: Place, engine: Engine, options: argparse.Namespace) -> None:
    """Stop a run, release its machines, and print what still costs money."""
    engine.require_client()
    is_named = bool(options.run) or place.own_run is not None
    failure = None
    if is_named or not options.down or _watch_own_runs(place, engine).is_live():
        watch = _watch_live_run(place, engine, options.run)
        if not _stop_run(watch, options.now):
            failure = _still_running_failure(watch)
    engine.release_machines(options.down)
    for line in engine.machine_cost_lines():
        print(f"  {one_line(line)}", flush=True)
    if failure is not None and not options.down:
        raise failure
