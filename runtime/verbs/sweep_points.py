"""Report, print and stop all points of a sweep, for status, logs and stop. Only in a sweep's jobctl."""

from __future__ import annotations

from ..engines.engine import Engine
from ..engines.live_runs import RunWatch
from ..engines.log_files import LogRequest
from ..engines.print_logs import print_logs
from ..engines.sweep_engine import SweepEngine
from ..run_folder.run import Run
from ..system.failure import Failure, print_failure
from ..system.text import one_line
from ..system.untrusted_files import Unreadable
from .run_rows import RunRow, make_run_row, rows_to_json_objects
from .status import print_json
from .stop import end_runs

MOST_LABEL_WIDTH = 60  # widest label that is aligned in the table of points


def print_points(engine: Engine, sweep: Run, shown_as: str) -> int:
    """Print a sweep's points. Return 1 if one has ended with an exit code other than 0, or else 0."""
    assert isinstance(engine, SweepEngine)
    engine.query_runs([sweep])
    points = [(point, engine.state(point.run)) for point in engine.points_of_run(sweep)]
    if shown_as == "json":
        rows = rows_to_json_objects(
            [
                make_run_row(point.run, lambda _: engine) if point.is_started else RunRow(point.run, 0, state)
                for point, state in points
            ]
        )
        labelled = [
            {"point": point.point.number, "label": point.point.label, **rows[index]}
            for index, (point, _) in enumerate(points)
        ]
        print_json({"run": sweep.id, "job": engine.job.name, "points": labelled})
    else:
        where = engine.run_name_in_engine(sweep)
        print(f"sweep {sweep.id} of {engine.job.name}{where and f', {where}'}: {engine.state(sweep).text}")
        width = min(MOST_LABEL_WIDTH, max(len(point.point.label) for point, _ in points))
        for point, state in points:
            print(f"{point.point.number:>5}  {one_line(point.point.label):<{width}}  {one_line(state.text)}")
            reason = "" if state.exit_code is None else engine.engine_of(point.run).reason_line(point.run, state)
            print(f"       reason: {one_line(reason)}\n" if reason else "", end="")
    return int(any(state.exit_code not in (None, 0) for _, state in points))


def print_logs_of_points(engine: Engine, sweep: Run, request: LogRequest) -> int:
    """Print the logs of all started points in a sweep, one after another."""
    assert isinstance(engine, SweepEngine)
    for point in engine.points_of_run(sweep):
        if not point.is_started:
            continue
        print(f"==> point {point.point.number}, {point.point.label}, {point.run.path}", flush=True)
        try:
            print_logs(engine.engine_of(point.run), point.run, request)
        except (Failure, Unreadable) as error:  # its nodes may not have started
            print_failure(error)
    return 0


def stop_points(engine: Engine, sweep: Run, is_now: bool = False, is_down: bool = False) -> None:
    assert isinstance(engine, SweepEngine)
    engine.mark_stopped(sweep)  # so that jobctl submit starts no further points
    watch = RunWatch(engine, engine.started_runs(sweep))
    watch.runs = watch.live_runs()
    live = end_runs(watch, f"sweep {sweep.id}", is_now)
    after = SweepEngine(engine.engine.without_cached_queries())
    for point in after.started_runs(sweep) if engine.has_machines else ():
        after.engine_of(point).release_machines(is_down)
    print_points(after, Run(sweep.path), "text")
    if live:
        raise Failure("some points are still running", "jobctl status --point N shows where the nodes of a point are")
