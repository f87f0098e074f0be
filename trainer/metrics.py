"""metrics/rank_NN.jsonl: one JSON object per line, appended over all attempts. Standard library only.

A step that was done again after a restart has a line per attempt; the last one counts. A killed process may
leave a torn line; readers skip it.
"""

import json
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path


class MetricsFile:
    """Appends lines, each with one write, so that a line is whole or torn but never mixed with another."""

    def __init__(self, run_dir: Path, rank: int) -> None:
        self.path = run_dir / "metrics" / f"rank_{rank:02d}.jsonl"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
        self._warned = False
        size = os.fstat(self._descriptor).st_size
        if size and os.pread(self._descriptor, 1, size - 1) != b"\n":
            os.write(self._descriptor, b"\n")  # end the torn line of the attempt before

    def write(self, values: Mapping[str, object]) -> None:
        """Append one line. A full disk is reported once and costs lines, not the training."""
        try:
            os.write(self._descriptor, (json.dumps(values) + "\n").encode())
        except OSError as error:
            if not self._warned:
                print(f"warning: metrics are not written: {error}", file=sys.stderr, flush=True)
            self._warned = True


def read(path: Path) -> Iterator[dict[str, object]]:
    """Every whole line, in the order written."""
    with open(path, encoding="utf-8", errors="replace") as lines:
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
