"""Start all points of a sweep as one job array. Each point is a separate run. Packed into jobctl; Python 3.8.

In:  a new run of the sweep, whose job.sbatch starts the array.
Out: a job array, and a link to the artifact of each point's run: RUN/points/N. If this raises Failure, nothing
     was created.
"""

from __future__ import annotations

import argparse
import contextlib

from ....runtime.engines.live_runs import RunWatch
from ....runtime.engines.new_run import NewRun
from ....runtime.engines.new_sweep import NewSweep, print_sweep
from ....runtime.engines.sweep_engine import SweepEngine
from ....runtime.run_folder.run_secrets import saved_secrets
from ....runtime.verbs.sweep_points import print_points
from .job_records import record_queued_job
from .link_named_log import log_options
from .submission import SlurmQueue, dependency_option

LOOK_S = 2  # interval at which to check whether all points have ended


def start_array(sweep: NewSweep, queue: SlurmQueue, options: argparse.Namespace) -> int:
    with contextlib.ExitStack() as unfinished:
        points = _create_points(sweep, unfinished)
        elements = f"0-{len(points) - 1}{f'%{options.parallel}' if options.parallel else ''}"
        run = sweep.run.path
        words = dependency_option(options.after, str(sweep.place.settings.get("after") or ""))
        logs = log_options(sweep.place.settings, f"{run}/points/%a/../../logs/slurm-%A_%a")
        words += [f"--array={elements}", f"--chdir={run}", *logs]
        with queue.submitted_job([*words, str(sweep.new.artifact / "job.sbatch"), str(run)]) as job_id:
            for point in points:
                point.keep()
            sweep.new.keep_for_logs()
            record_queued_job(sweep.run.path, 0, job_id)
            for index, point in enumerate(points):
                record_queued_job(point.run.path, 0, f"{job_id}_{index}")
    print_sweep(sweep, f"job array {job_id}_[{elements}]")
    if not options.wait:
        return 0
    engine = SweepEngine(sweep.engine)
    RunWatch(engine, [point.run for point in points], is_patient=True).wait_until_ended(float("inf"), LOOK_S)
    return print_points(SweepEngine(sweep.engine), sweep.run, "text")


def _create_points(sweep: NewSweep, unfinished: contextlib.ExitStack) -> list[NewRun]:
    links = sweep.run.path / "points"
    links.mkdir()
    points = []
    for point in sweep.points.points:
        new = unfinished.enter_context(sweep.create_point(point))
        unfinished.enter_context(saved_secrets(new.run.path, new.place.settings.get("saved_secrets", ())))
        (links / str(point.number)).symlink_to(new.artifact)
        points.append(new)
    return points
