"""Create a sweep's run, and its points' runs."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ..run_folder.points_file import SweepPoint, SweepPoints, write_artifact_of_point
from ..run_folder.run import Run, jobctl_command, quote_shell_word
from .artifact_location import Place
from .new_run import NewRun, create_run
from .starting_engine import StartingEngine, copy_user_code, starting_engine


class NewSweep:
    """A sweep's run that is being created. new: its folder; engine: the backend's engine"""

    def __init__(self, place: Place, engine: StartingEngine, new: NewRun, points: SweepPoints) -> None:
        self.place, self.engine, self.new, self.points = place, engine, new, points

    @property
    def run(self) -> Run:
        return self.new.run

    def create_point(self, point: SweepPoint) -> NewRun:
        with point_artifact(self.place, self.points, point) as place:
            engine = starting_engine(place)
            new = create_run(place, engine, f"{self.run.id}-{point.number}")
            try:
                copy_user_code(place, engine, new)
                new.write_description("")
            except BaseException:
                new.discard()
                raise
            engine.job.artifact = new.artifact
            return new


@contextlib.contextmanager
def point_artifact(place: Place, points: SweepPoints, point: SweepPoint) -> Iterator[Place]:
    """Write a point's artifact to a temporary folder, which the caller may remove before the program ends."""
    folder = Path(tempfile.mkdtemp(prefix="jobc-point."))
    try:
        write_artifact_of_point(place.artifact, points, point, folder / "point")
        yield Place(folder / "point", place)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def print_sweep(sweep: NewSweep, started: str) -> None:
    """Print the sweep's run, and the commands to watch and stop it. started: what has been started"""
    print(f"sweep {sweep.run.id} in {quote_shell_word(str(sweep.run.path))}, {started}")
    print(f"  status: {jobctl_command(sweep.new.artifact, 'status')}")
    print(f"  stop:   {jobctl_command(sweep.new.artifact, 'stop')}", flush=True)
