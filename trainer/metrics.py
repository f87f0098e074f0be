"""metrics/rank_NN.jsonl: one JSON object per line, appended over all attempts. Standard library only.

Lines are written together, every so many seconds, and before every checkpoint: a killed rank loses at most lines since
its newest checkpoint, of steps that a resumed run does again. A power failure may take what the machine had not yet
written to its disk, some 30 s. A step that was done again has a line per attempt; the last one counts. A killed process
may leave a torn line; readers skip it. A file that has grown to its limit becomes rank_NN.jsonl.1, .2, …, oldest first,
and a new one begins; read() gives them as one.
"""

import json
import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

WRITES_PER_S = 2  # of all ranks of a node together, at most


class MetricsFile:
    """Collects lines and appends them, whole ones in one write, so that they are never mixed with others.

    flush_s    seconds between two writes; 0 = every line at once
    max_bytes  size of one file
    """

    def __init__(self, run_dir: Path, rank: int, flush_s: float, max_bytes: int) -> None:
        self.path = run_dir / "metrics" / f"rank_{rank:02d}.jsonl"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._flush_s, self._max_bytes = flush_s, max_bytes
        self._lines: list[str] = []
        self._written_at = time.monotonic()
        self._warned = False
        self._lock = threading.Lock()  # the watch flushes as well: the main thread may wait for a lost rank
        self._descriptor = self._open()
        self._size = os.fstat(self._descriptor).st_size
        if self._size and os.pread(self._descriptor, 1, self._size - 1) != b"\n":
            self._put(b"\n")  # end the torn line of the attempt before

    def write(self, values: Mapping[str, object]) -> None:
        """Add one line."""
        line = json.dumps(values) + "\n"
        with self._lock:
            self._lines.append(line)
        self.flush_if_due()

    def flush_if_due(self) -> None:
        """Write what has been waiting for long enough."""
        if self._lines and time.monotonic() - self._written_at >= self._flush_s:
            self.flush()

    def flush(self) -> None:
        """Write now."""
        with self._lock:
            text, self._lines = "".join(self._lines).encode(), []
            self._written_at = time.monotonic()
            self._put(text)

    def _put(self, text: bytes) -> None:
        """A full disk is reported once and costs lines, not the training."""
        try:
            if self._size and self._size + len(text) > self._max_bytes:
                self._put_aside()
            self._append(text)
        except OSError as error:
            if not self._warned:
                print(f"warning: metrics are not written: {error}", file=sys.stderr, flush=True)
            self._warned = True

    def _append(self, text: bytes) -> None:
        while text:
            written = os.write(self._descriptor, text)  # a part of it when the disk is nearly full
            self._size += written
            text = text[written:]

    def _open(self) -> int:
        return os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)

    def _put_aside(self) -> None:
        self.path.rename(f"{self.path}.{1 + max(map(_number, older(self.path)), default=0)}")
        os.close(self._descriptor)
        self._descriptor, self._size = self._open(), 0


def flush_interval(flush_s: float, ranks_of_node: int) -> float:
    """Seconds between two writes of one rank, so that its node does not exceed WRITES_PER_S; 0 stays 0."""
    return max(flush_s, ranks_of_node / WRITES_PER_S) if flush_s else 0.0


def older(path: Path) -> list[Path]:
    """What was put aside of the file at `path`, oldest first."""
    found = [part for part in path.parent.glob(f"{path.name}.*") if part.suffix[1:].isdigit()]
    return sorted(found, key=_number)


def _number(part: Path) -> int:
    return int(part.suffix[1:])


def read(path: Path) -> Iterator[dict[str, object]]:
    """Every whole line, in the order written, also of what was put aside."""
    for part in (*older(path), path):
        with open(part, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                try:
                    values = json.loads(line)
                except ValueError:
                    continue
                if isinstance(values, dict):
                    yield values


def training_steps(path: Path) -> dict[int, dict[str, object]]:
    """step -> its last training line."""
    return {int(str(values["step"])): values for values in read(path) if "loss" in values}


def last_step(path: Path) -> int:
    """The last step that the file tells of, looked for at its end; 0 when there is none."""
    for part in (path, *reversed(older(path))):
        try:
            with open(part, "rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - 65536))
                lines = file.read().splitlines()
        except OSError:
            continue
        for line in reversed(lines):
            try:
                return int(json.loads(line)["step"])
            except (ValueError, KeyError, TypeError):
                continue
    return 0
