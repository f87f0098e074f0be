"""Print the output of a run: the console of its nodes, merged by time, or the output of one rank.

Out    bytes as they were printed; with several nodes `node N  | ` before each line, and the first failure before all
Exit   0; 1 if there is no such run or log; 2 for an invalid option; 130 after Ctrl-C, which does not stop the run
"""

from __future__ import annotations

import argparse
import re
import signal
import time
from types import FrameType

from ..engines.engine import Engine, Failure
from ..engines.log_files import LogRequest, Logs, first_failure, print_first_failure
from ..engines.run import Run
from ..engines.sweep_engine import SweepEngine, add_point_option, place_of_point, watching_engine
from ..engines.values import number
from ..untrusted_files import Unreadable
from .command import Parser, print_failure
from .ending_signals import call_until_ended
from .jobs import Place
from .watch import Watch

HINT = "try again when the engine answers; jobctl logs without --follow does not query it"
TICK_S = 0.5  # between two checks of the logs
HELD_TICKS = 4  # delay of lines from several nodes, so that the first failure is printed before its consequences
FIRST_TICKS = 3  # by then an earlier failure of a slower node is recorded


def main(argv: list[str]) -> int:
    """Return the exit code."""
    for signal_number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(signal_number) == signal.SIG_DFL:  # not under nohup
            signal.signal(signal_number, _leave)
    return call_until_ended(logs, argv)


def _leave(signal_number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + signal_number)  # so that clients of an engine are ended too


def logs(argv: list[str]) -> int:
    artifact = Place.of_program()
    engine = watching_engine(artifact)
    options, request = _parse(argv, engine)
    if options.point is not None:
        artifact, options.run = place_of_point(artifact, options.point, options.run), ""
        engine = artifact.engine()
    run = artifact.choose_any_run(options.run)
    if isinstance(engine, SweepEngine):
        return _print_points(engine, run, request)
    return print_logs(engine, run, request, options.patient)


def parser(engine: Engine) -> Parser:
    words = Parser(
        "logs", "Print the output of a run: the console of its nodes, merged by time, or the output of one rank."
    )
    words.add_argument("--run", metavar="ID", default="", help="ID or path of the run; default: the newest")
    words.add_argument("--node", metavar="N", help=f"the console of node N; default: {engine.default_console}")
    words.add_argument("--rank", metavar="N", help="the output of global rank N")
    words.add_argument("--tail", metavar="N", help="only the last N lines")
    words.add_argument(
        "--follow", "-f", action="store_true", help="print new output until the run ends; Ctrl-C does not stop the run"
    )
    words.add_argument("--patient", action="store_true", help=argparse.SUPPRESS)  # after a submit: the engine answers
    add_point_option(words, engine, "all points, one after another")
    return words


def _parse(argv: list[str], engine: Engine) -> tuple[argparse.Namespace, LogRequest]:
    options = parser(engine).parse_args(argv)
    if options.node and options.rank:
        raise Failure("--node and --rank cannot be used together", "jobctl logs --help", 2)
    if isinstance(engine, SweepEngine) and options.follow and options.point is None:
        raise Failure("--follow needs one point of the sweep", "jobctl logs --point 0 --follow", 2)
    tail = _count(options.tail, "--tail")
    if tail == 0:
        raise Failure("--tail takes a number of lines, 1 or more", "jobctl logs --help", 2)
    return options, LogRequest(_count(options.node, "--node"), _count(options.rank, "--rank"), options.follow, tail)


def _count(text: str | None, option: str) -> int | None:
    if not text:
        return None
    value = number(text) if re.fullmatch("[0-9]{1,9}", text) else None
    if value is None:
        raise Failure(f"{option} takes a number, not {text}", "jobctl logs --help", 2)
    return value


def print_logs(engine: Engine, run: Run, request: LogRequest, is_patient: bool = False) -> int:
    """Print the requested logs and return an exit code. is_patient: wait for an engine that does not answer"""
    code = engine.print_logs(run, request)
    if code is not None:
        return code
    files = Logs(run, request.name, engine.job.nodes)
    names = files.name or "node_*.log"
    watch = Watch(engine, [run], HINT, is_patient)
    if request.follow and watch.is_live():
        _follow(watch, files, names, request.tail)
        return 0
    engine.fetch(names, [run])
    sizes = files.sizes()
    if not sizes:
        raise Failure(f"no {names} in {run.path}/logs", "jobctl status shows whether the run has started")
    if request.tail is not None:
        files.skip_to_tail(sizes, request.tail)
    if files.is_merged:
        _show_first_failure(engine, run)
    files.print(sizes)
    return 0


def _follow(watch: Watch, files: Logs, names: str, tail: int | None) -> None:
    """Print the logs as they grow, until the run has ended."""
    engine, run = watch.engine, watch.runs[0]
    seen: list[dict[str, int]] = []  # sizes, oldest first
    held_ticks = HELD_TICKS if files.is_merged else 0
    shown_attempt, failed_ticks = None, 0
    asked_at = time.monotonic()
    engine.fetch(names, [run])
    while True:
        if time.monotonic() - asked_at >= engine.live_every_s:
            engine.fetch(names, [run])
            if not watch.is_live():
                break
            asked_at = time.monotonic()
        seen.append(files.sizes())
        if tail is not None:
            files.skip_to_tail(seen[0], tail)
            tail = None
        if files.is_merged and shown_attempt != run.attempt and first_failure(run):
            failed_ticks += 1
            if failed_ticks > FIRST_TICKS:
                _show_first_failure(engine, run)
                shown_attempt, failed_ticks = run.attempt, 0
        elif len(seen) > held_ticks:
            files.print(seen.pop(0))
        time.sleep(TICK_S)
    engine.fetch(names, [run])
    if files.is_merged and shown_attempt != run.attempt:
        _show_first_failure(engine, run)
    files.print(files.sizes())


def _show_first_failure(engine: Engine, run: Run) -> None:
    failure = first_failure(run)
    if failure:
        engine.fetch(failure[2], [run])
        print_first_failure(run, failure)


def _print_points(engine: SweepEngine, sweep: Run, request: LogRequest) -> int:
    """Print the logs of all points of a sweep that have been started, one after another."""
    for point in engine.points(sweep):
        if not point.is_started:
            continue
        print(f"==> point {point.point.number}, {point.point.label}, {point.run.path}", flush=True)
        try:
            print_logs(engine.engine_of(point.run), point.run, request)
        except Failure as failure:  # its nodes may not have begun
            print_failure(failure)
        except Unreadable as error:
            print_failure(Failure(str(error)))
    return 0
