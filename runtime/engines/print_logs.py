"""Print a run's logs, and follow them while the run is live."""

from __future__ import annotations

import sys
import time

from ..run_folder.run import Run
from ..system.failure import Failure
from ..system.text import one_line
from .engine import Engine
from .live_runs import RunWatch
from .log_files import LogRequest, RequestedLogs, print_first_failure

TICK_S = 0.5  # pause between checks of the logs
HELD_TICKS = 4  # how long several nodes' lines are held back, so that the first failure is printed before its effects
FIRST_TICKS = 3  # by then, an earlier failure on a slower node has been recorded


def print_logs(engine: Engine, run: Run, request: LogRequest, is_patient: bool = False) -> int:
    """Print the requested logs and return an exit code. is_patient: whether to wait if the engine does not respond"""
    code = engine.print_logs(run, request)
    if code is not None:
        return code
    files = RequestedLogs(run, request.name, engine.job.nodes)
    names = files.name or "node_*.log"
    watch = RunWatch(engine, [run], is_patient)
    if request.follow and watch.is_live():
        _print_until_ended(watch, files, names, request)
        if not request.name and not files.log_sizes():
            files.print_engine_log(engine.engine_log(run), request.tail)
        return 0
    engine.fetch(names, [run])
    sizes = files.log_sizes()
    if not sizes and not request.name and files.print_engine_log(engine.engine_log(run), request.tail):
        return 0
    if not sizes:
        pattern = "rank_*.log" if request.rank is not None else "node_*.log"
        logs = sorted((run.path / "logs").glob(pattern), key=lambda log: (len(log.name), log.name))
        hint = f"the last one is {logs[-1].name}" if logs else "jobctl status reports whether the run has started"
        raise Failure(f"no {names} in {run.path}/logs", hint)
    _skip_old_lines(files, run, request)
    if files.is_merged:
        _show_first_failure(engine, run)
    files.print_up_to(sizes)
    return 0


def _print_until_ended(watch: RunWatch, files: RequestedLogs, names: str, request: LogRequest) -> None:
    """Print the logs as they grow, until the run has ended."""
    engine, run = watch.engine, watch.runs[0]
    seen: list[dict[str, int]] = []  # sizes, oldest first
    held_ticks = HELD_TICKS if files.is_merged else 0
    shown_attempt, failed_ticks, state = None, 0, ""
    asked_at = time.monotonic()
    engine.fetch(names, [run])
    _skip_old_lines(files, run, request)
    while True:
        if watch.states[0].text != state:
            state = watch.states[0].text
            if watch.states[0].name == "queued":
                print(one_line(state), file=sys.stderr, flush=True)
        if time.monotonic() - asked_at >= engine.live_every_s:
            engine.fetch(names, [run])
            if not watch.is_live():
                break
            asked_at = time.monotonic()
        seen.append(files.log_sizes())
        if files.is_merged and shown_attempt != run.attempt and run.first_failure():
            failed_ticks += 1
            if failed_ticks > FIRST_TICKS:
                _show_first_failure(engine, run)
                shown_attempt, failed_ticks = run.attempt, 0
        elif len(seen) > held_ticks:
            files.print_up_to(seen.pop(0))
        time.sleep(TICK_S)
    engine.fetch(names, [run])
    if files.is_merged and shown_attempt != run.attempt:
        _show_first_failure(engine, run)
    files.print_up_to(files.log_sizes())


def _skip_old_lines(files: RequestedLogs, run: Run, request: LogRequest) -> None:
    if request.tail is not None:
        files.skip_to_tail(files.log_sizes(), request.tail)
    elif request.new_attempt and run.attempt:
        files.skip_to_attempt(files.log_sizes(), run.attempt)


def _show_first_failure(engine: Engine, run: Run) -> None:
    failure = run.first_failure()
    if failure:
        engine.fetch(failure["log"], [run])
        print_first_failure(run, failure)
