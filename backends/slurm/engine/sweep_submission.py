"""Start all points of a sweep as one job array; each point is a run of its own. Packed into jobctl.

In   the sweep's artifact: points (line N+1 = the artifact of point N), array.sbatch
Out  the run folder of the sweep, with links to the artifacts in the runs of its points: points/0, points/1, …; a job
     array; or Failure, and then nothing was created
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
from collections.abc import Sequence
from pathlib import Path

from ....trainer.rt.engines.engine import Failure
from ....trainer.rt.engines.run import shell_word, verb_words
from ....trainer.rt.engines.starting import StartingEngine
from ....trainer.rt.new_run import NewRun, create_run
from ....trainer.rt.saved_secrets import saved_secrets
from ....trainer.rt.verbs.command import Parser
from ....trainer.rt.verbs.jobs import Place
from ....trainer.rt.verbs.status import status
from ....trainer.rt.verbs.submit import copy_user_code
from ....trainer.rt.verbs.watch import Watch
from .job_records import note_job
from .submission import Queue, dependency, dependency_option, require_client

LOOK_S = 2  # pause between two checks whether all points have ended


def submit_sweep(place: Place, engine: StartingEngine, queue: Queue, argv: list[str]) -> int:
    """Return the exit code of jobctl submit."""
    options = _parse(place, argv)
    if place.own_run is not None:
        raise Failure("this is the copy of a sweep that was submitted", "call jobctl submit of the artifact", 2)
    require_client()
    with contextlib.ExitStack() as unfinished:
        sweep = unfinished.enter_context(create_run(place, engine))
        points = _create_points(sweep, unfinished)
        sweep.describe("")
        elements = f"0-{len(points) - 1}{f'%{options.limit}' if options.limit else ''}"
        with queue.queued(_words(sweep, elements, options.after)) as job_id:
            for point in points:
                point.keep()
            sweep.preserve()
            note_job(sweep.run.path, 0, job_id)
            for index, point in enumerate(points):
                note_job(point.run.path, 0, f"{job_id}_{index}")
    print(f"sweep {sweep.run.id} in {shell_word(str(sweep.run.path))}, job array {job_id}_[{elements}]")
    print(f"  status: {verb_words(sweep.artifact, 'status')}")
    print(f"  stop:   {verb_words(sweep.artifact, 'stop')}", flush=True)
    if not options.wait:
        return 0
    Watch(engine, [point.run for point in points], "", is_patient=True).wait(float("inf"), LOOK_S)
    return status(["--run", str(sweep.run.path)])


def _parse(place: Place, argv: list[str]) -> argparse.Namespace:
    parser = Parser("submit", "Queue all points of the sweep as one job array; each point is a run of its own.")
    text = "wait until all have ended; the exit code is 0 if all have ended well, else 1"
    parser.add_argument("--wait", action="store_true", help=text)
    limit = str(place.settings.get("array_limit") or "")
    parser.add_argument("--limit", metavar="N", default=limit, help="run at most N points at a time")
    text = "start after job ID has ended well; or afterany:ID, afternotok:ID, singleton"
    parser.add_argument("--after", metavar="ID", action="append", default=[], type=dependency, help=text)
    options = parser.parse_args(argv)
    if options.limit and not re.fullmatch("[1-9][0-9]{0,17}", options.limit):
        raise Failure(f"--limit takes a number, not {options.limit}", "", 2)
    return options


def _create_points(sweep: NewRun, unfinished: contextlib.ExitStack) -> list[NewRun]:
    """Create the run of every point, and links to their artifacts."""
    (sweep.run.path / "points").mkdir()
    points = []
    for index, artifact in enumerate(_artifacts(sweep.place.artifact)):
        place = Place(artifact)
        engine = type(sweep.engine)(place.job)
        assert isinstance(engine, StartingEngine)
        new = unfinished.enter_context(create_run(place, engine, f"{sweep.run.id}-{index}"))
        copy_user_code(place, engine, new)
        new.describe("")
        unfinished.enter_context(saved_secrets(new.run.path, place.settings.get("saved_secrets", ())))
        (sweep.run.path / "points" / str(index)).symlink_to(new.artifact)
        points.append(new)
    return points


def _artifacts(sweep: Path) -> list[Path]:
    """Return the artifacts of the points, which are beside that of the sweep. Raises Failure."""
    places = os.fsdecode((sweep / "points").read_bytes()).splitlines()
    artifacts = [Path(os.path.normpath(sweep / "../.." / place)) for place in places]
    for artifact in artifacts:
        if not artifact.is_dir():
            raise Failure(f"{artifact} of this sweep does not exist", "compile the sweep again")
    return artifacts


def _words(sweep: NewRun, elements: str, after: Sequence[str]) -> list[str]:
    run = sweep.run.path
    return [
        *dependency_option(after, str(sweep.place.settings.get("after") or "")),
        f"--array={elements}",
        f"--chdir={run}",
        f"--output={run}/points/%a/../../logs/slurm-%A_%a.log",
        str(sweep.artifact / "array.sbatch"),
        str(run),
    ]
