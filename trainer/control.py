"""How people and scripts talk to a running job: the files control/STOP and control/SAVE in the run folder."""

import contextlib
import functools
from pathlib import Path


@functools.cache  # asked for in every step
def stop_file(run_dir: Path) -> Path:
    """Exists = save and end for good; nobody starts the job again."""
    return run_dir / "control" / "STOP"


@functools.cache
def save_file(run_dir: Path) -> Path:
    """Exists = save now and go on. The trainer removes it."""
    return run_dir / "control" / "SAVE"


def answer_save(run_dir: Path) -> None:
    """A request to save is removed once it was served, whether the disk took the checkpoint or not."""
    with contextlib.suppress(OSError):  # a folder that can only be read
        save_file(run_dir).unlink(missing_ok=True)
