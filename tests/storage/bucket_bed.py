"""The mirror of a run folder in a bucket, and the names of the objects there."""

from __future__ import annotations

from jobc.runtime.run_folder.run_folder import RunFolder
from jobc.runtime.storage.bucket_mirror import BucketMirror
from jobc.runtime.storage.bucket_run import BucketRun


def going_on(run: BucketRun, folder: RunFolder, node: int = 0) -> BucketMirror:
    """The one that sends, in a process after that of the one that has brought."""
    mirror = BucketMirror(run, folder, node)
    mirror.load_restored_state()
    return mirror


def names(run: BucketRun, prefix: str = "") -> list[str]:
    return sorted(run.object_ages(prefix))
