"""Write and read metrics/rank_NN.jsonl: one JSON object per line, appended by all attempts. Standard library only.

Lines are buffered, and written every few seconds and before every checkpoint. A killed rank therefore loses only lines
of steps after its newest checkpoint, and a resumed run repeats these steps. A power failure may lose about the last
30 s, which the kernel had not yet written to disk. A repeated step has one line per attempt, of which the last one is
used. A killed process may leave an incomplete line, which readers skip. A full file is rotated to rank_NN.jsonl.1, .2,
… (.1 is the oldest), and read_metrics() reads all of them.
"""

import json
import math
import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from ...runtime.run_folder import run_folder
from ...runtime.system.untrusted_files import Unreadable, open_regular, parse_json

LONGEST_LINE = 1 << 20  # bytes; the trainer writes fewer than 4,096
MOST_BYTES = 4 << 30  # largest readable file; the trainer rotates at metrics.max_mib
WRITES_PER_S = 2  # maximum for all ranks of a node together


class RankMetricsFile:
    """Buffer of metrics lines, which are appended in a single write so that writers do not interleave.

    flush_s:   seconds between writes; 0 = write every line immediately.
    max_bytes: file size at which the file is rotated.
    """

    def __init__(self, run_dir: Path, rank: int, flush_s: float, max_bytes: int) -> None:
        self.path = run_dir / "metrics" / f"rank_{rank:02d}.jsonl"
        self._flush_s, self._max_bytes = flush_s, max_bytes
        self._lines: list[str] = []
        self._written_at = time.monotonic()
        self._warned: set[str] = set()
        self._lock = threading.Lock()  # the watchdog thread flushes too because the main thread may be blocked
        self._descriptor: int | None = None
        self._size, self._is_torn = 0, False
        self._append_or_warn(b"")  # create the file, and check that it ends with a complete line

    def write(self, values: Mapping[str, object]) -> None:
        """Add one line. NaN and infinity become null because JSON cannot express them."""
        finite = {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in values.items()
        }
        with self._lock:
            self._lines.append(json.dumps(finite) + "\n")
        self.flush_if_due()

    def flush_if_due(self) -> None:
        """Write the buffered lines if flush_s has passed since the last write."""
        if self._lines and time.monotonic() - self._written_at >= self._flush_s:
            self.flush()

    def flush(self) -> None:
        with self._lock:
            text, self._lines = "".join(self._lines).encode(), []
            self._written_at = time.monotonic()
            self._append_or_warn(text)

    def _append_or_warn(self, text: bytes) -> None:
        """Append `text`. If the disk is full, these lines are lost with one warning, and training continues."""
        try:
            if self._descriptor is None:
                self._descriptor = self._open_file()
            elif self._size and self._size + len(text) > self._max_bytes:
                self._descriptor = self._rotate_file(self._descriptor)
            self._append_text(self._descriptor, text)
        except OSError as error:
            self._warn_once("metrics are not written", error)

    def _append_text(self, descriptor: int, text: bytes) -> None:
        if self._is_torn:
            text = b"\n" + text
        while text:
            written = os.write(descriptor, text)  # a partial write if the disk is nearly full
            self._size += written
            self._is_torn = text[written - 1 : written] != b"\n"
            text = text[written:]

    def _open_file(self) -> int:
        """Open the file. An earlier attempt may have left an incomplete line at its end."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = run_folder.open_for_append(self.path, os.O_RDWR)
        self._size = os.fstat(descriptor).st_size
        self._is_torn = self._size > 0 and os.pread(descriptor, 1, self._size - 1) != b"\n"
        return descriptor

    def _rotate_file(self, full: int) -> int:
        """Rotate the file, or keep the full one if that fails. Close it last, so that its descriptor is not reused."""
        try:
            aside = f"{self.path}.{1 + max(map(_file_number, rotated_files(self.path)), default=0)}"
            os.rename(self.path, aside)
            try:
                descriptor = run_folder.open_for_append(self.path, os.O_RDWR)
            except OSError:
                os.rename(aside, self.path)
                raise
        except OSError as error:
            self._warn_once("the full metrics file cannot be rotated", error)
            return full
        os.close(full)
        self._size, self._is_torn = 0, False
        return descriptor

    def _warn_once(self, message: str, error: OSError) -> None:
        if message not in self._warned:
            print(f"warning: {message}: {error}", file=sys.stderr, flush=True)
        self._warned.add(message)


def seconds_between_writes(flush_s: float, ranks_of_node: int) -> float:
    """Return the seconds between writes of one rank, so that its node keeps to WRITES_PER_S, or 0 for flush_s=0."""
    return max(flush_s, ranks_of_node / WRITES_PER_S) if flush_s else 0.0


def rotated_files(path: Path) -> list[Path]:
    parts = [part for part in path.parent.glob(f"{path.name}.*") if part.suffix[1:].isdigit()]
    return sorted(parts, key=_file_number)


def _file_number(part: Path) -> int:
    return int(part.suffix[1:])


def read_metrics(path: Path) -> Iterator[dict[str, object]]:
    """Yield every complete line in order, including rotated files. Raises Unreadable."""
    for part in (*rotated_files(path), path):
        with open_regular(part) as lines:
            if os.fstat(lines.fileno()).st_size > MOST_BYTES:
                raise Unreadable(part, "is larger than 4 GiB")
            while line := lines.readline(LONGEST_LINE):
                try:
                    values = parse_json(part, line)
                except Unreadable:
                    continue
                if isinstance(values, dict):
                    yield values


def last_step_lines(path: Path) -> dict[int, dict[str, object]]:
    return {int(str(values["step"])): values for values in read_metrics(path) if "loss" in values}


def last_step_in_file(path: Path) -> int:
    """Return the last step in the file, searching from its end, or 0 if there is none."""
    for part in (path, *reversed(rotated_files(path))):
        try:
            with open_regular(part) as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - 65536))
                step = run_folder.last_step_in_metrics(file.read(65536))
        except (OSError, Unreadable):
            continue
        if step is not None:
            return step
    return 0
