"""Control a running job through the files control/STOP and control/SAVE in the run folder."""

import functools
from pathlib import Path


@functools.cache  # called in every step
def stop_file(run_dir: Path) -> Path:
    """Return the path of the stop file. If it exists, the run saves and exits; the job is not requeued."""
    return run_dir / "control" / "STOP"


class SaveRequest:
    """control/SAVE, which rank 0 reads. If the file exists, the run saves and continues, and the trainer removes the
    file even if the save fails. A file that cannot be removed counts only once, unless it is changed or replaced."""

    def __init__(self, run_dir: Path) -> None:
        self._file = run_dir / "control" / "SAVE"
        self._seen: tuple[int, int] | None = None  # inode and change time (ns)
        self._answered: tuple[int, int] | None = None

    def is_made(self) -> bool:
        try:
            stat = self._file.stat()
            self._seen = stat.st_ino, stat.st_ctime_ns
        except OSError:
            self._seen = None
        return self._seen not in (None, self._answered)

    def remove_request(self) -> None:
        """Remove the request that is_made() last saw."""
        if self._seen in (None, self._answered):
            return
        self._answered = self._seen
        try:
            self._file.unlink(missing_ok=True)
        except OSError as error:
            hint = "remove the file before you request another save"
            print(f"warning: {self._file} was handled but cannot be removed: {error.strerror}; {hint}", flush=True)
