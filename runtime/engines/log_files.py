"""Print the logs in a run folder (one log, or all nodes' logs merged by time), and the first failure.

In:  the logs RUN/logs/node_NN.log and rank_NN.log; the times of their lines, `SECONDS OFFSET` in .node_NN.times;
     the first failure, RUN/exit/ATTEMPT/first.
Out: the logs' bytes on stdout. With several nodes, each line begins with `node N  | `. Control sequences other than
     colors are removed if stdout is a terminal or the run belongs to another user.

Logs are streamed, with only one piece of a line per log in memory. A log may be a link, and may be truncated at any
time.
"""

from __future__ import annotations

import contextlib
import heapq
import os
import re
import resource
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, NamedTuple

from ..run_folder.run import MOST_NODES, Run, quote_shell_word
from ..system.streams import LogOutput
from ..system.untrusted_files import Unreadable, open_regular

PIECE = 1 << 20  # maximum bytes of a line to read at a time
BLOCK = 1 << 16
FAILURE_BYTES, FAILURE_LINES, FAILURE_END = 1 << 20, 200, 20
_NAME = re.compile("(node|rank)_[0-9]{1,9}[.]log")
_TIME = re.compile(rb"([0-9]{1,18}) ([0-9]{1,18})\n")
_TRACEBACK = b"Traceback (most recent call last)"


class LogRequest(NamedTuple):
    """The logs to print.

    node, rank: which log to print; if both are None, all nodes' logs.
    tail: how many of the existing lines to print; None prints all.
    new_attempt: whether to skip the output of earlier attempts.
    """

    node: int | None = None
    rank: int | None = None
    follow: bool = False
    tail: int | None = None
    new_attempt: bool = False

    @property
    def name(self) -> str:
        """File name of the requested log, or "" for all nodes' logs."""
        if self.rank is not None:
            return f"rank_{self.rank:02}.log"
        return "" if self.node is None else f"node_{self.node:02}.log"


class PrintedLog:
    """One log, and how much of it has been printed."""

    def __init__(self, path: Path) -> None:
        self.path, self.number = path, int(path.stem[5:])
        self.label = f"node {self.number:<2} | ".encode()
        self.offset = 0
        self.time = 0  # when the line at `offset` was written, seconds since the epoch
        self._times_offset = 0
        self._next: tuple[int, int] | None = None  # the next time, and the offset from which it applies

    def read_lines_up_to(self, end: int) -> Iterator[bytes]:
        """Yield the lines up to byte `end`, splitting lines over 1 MiB. Sets `time` before yielding each piece."""
        with open_regular(self.path, follow=False) as file, self._open_times_file() as times:
            file.seek(self.offset)
            while self.offset < end:
                self._set_time(times)
                piece = file.readline(min(PIECE, end - self.offset))
                if not piece:
                    return  # the log was truncated
                self.offset += len(piece)
                yield piece

    def _open_times_file(self) -> BinaryIO:
        try:
            return open_regular(self.path.with_name(f".{self.path.stem}.times"), follow=False)
        except Unreadable:
            return open(os.devnull, "rb")

    def _set_time(self, times: BinaryIO) -> None:
        while True:
            if self._next is None:
                times.seek(self._times_offset)
                line = times.readline(64)
                match = _TIME.fullmatch(line)
                if not match:
                    return
                self._times_offset += len(line)
                self._next = int(match.group(1)), int(match.group(2))
            if self._next[1] > self.offset:
                return
            self.time, self._next = self._next[0], None


class RequestedLogs:
    """The requested logs of a run."""

    def __init__(self, run: Run, name: str, nodes: int) -> None:
        """name: file name of one log, or "" for all nodes' logs. nodes: number of the job's nodes."""
        self.folder = run.path / "logs"
        self.name = name or ("" if nodes > 1 else "node_00.log")
        self.is_merged = not self.name
        self._out = LogOutput(not run.is_mine)
        self._logs: dict[str, PrintedLog] = {}
        self._skipped_lines = 0

    def log_sizes(self) -> dict[str, int]:
        """Return each existing log's size in bytes, by file name. Links and files with other names are ignored."""
        names: Iterable[str] = [self.name]
        if self.is_merged:
            try:
                names = [name for name in os.listdir(self.folder) if name.startswith("node_")][:MOST_NODES]
            except OSError:
                names = ()
        sizes = {}
        for name in names:
            if _NAME.fullmatch(name):
                size = regular_file_size(self.folder / name)
                if size is not None:
                    sizes[name] = size
        return sizes

    def skip_to_tail(self, sizes: dict[str, int], lines: int) -> None:
        total = 0
        for name, size in sizes.items():
            log = self._printed_log(name)
            try:
                log.offset, found = offset_of_last_lines(log.path, size, lines)
            except Unreadable:
                continue
            total += found
        self._skipped_lines = max(0, total - lines) if self.is_merged else 0

    def skip_to_attempt(self, sizes: dict[str, int], attempt: int) -> None:
        """Skip the output of earlier attempts, up to these sizes. Each node's output begins with a header."""
        header = _attempt_header(attempt)
        for name, size in sizes.items():
            log = self._printed_log(name)
            with contextlib.suppress(Unreadable):
                log.offset = _last_position(log.path, size, header)

    def print_up_to(self, sizes: dict[str, int]) -> None:
        grown = [
            (self._printed_log(name), size) for name, size in sizes.items() if size > self._printed_log(name).offset
        ]
        out = self._out
        if self.is_merged:
            self._print_in_time_order(sorted(grown, key=lambda pair: pair[0].number), out)
        else:
            for log, size in grown:
                for block in _read_blocks(log.path, log.offset, size):
                    out.write(block)
                log.offset = size
        out.flush()

    def print_engine_log(self, path: Path | None, tail: int | None) -> bool:
        """Print the engine's own log, or its last lines, and return whether it has any."""
        size = None if path is None else regular_file_size(path)
        if path is None or not size:
            return False
        start = 0 if tail is None else offset_of_last_lines(path, size, tail)[0]
        for block in _read_blocks(path, start, size):
            self._out.write(block)
        self._out.flush()
        return True

    def _printed_log(self, name: str) -> PrintedLog:
        if name not in self._logs:
            self._logs[name] = PrintedLog(self.folder / name)
        return self._logs[name]

    def _print_in_time_order(self, grown: list[tuple[PrintedLog, int]], out: LogOutput) -> None:
        """Print the lines of all logs in order of time: one log's lines until another log has an earlier one."""
        _allow_open_files(2 * len(grown))
        waiting: list[tuple[int, int, bytes, Iterator[bytes]]] = []  # time, index, next piece, later pieces
        for index, (log, size) in enumerate(grown):
            pieces = _read_or_warn(log, size)
            piece = next(pieces, None)
            if piece is not None:
                waiting.append((log.time, index, piece, pieces))
        heapq.heapify(waiting)
        while waiting:
            _, index, first, pieces = heapq.heappop(waiting)
            log, piece, is_inside = grown[index][0], first, False
            while True:
                if not is_inside:
                    self._skipped_lines -= 1
                is_complete = piece.endswith(b"\n")
                if self._skipped_lines < 0:
                    out.write(piece if is_inside else log.label + line_as_terminal_shows(piece))
                is_inside = not is_complete and log.offset < grown[index][1]
                if not is_complete and not is_inside and self._skipped_lines < 0:
                    out.write(b"\n")  # a line that is still being written
                following = next(pieces, None)
                if following is None:
                    break
                piece = following
                if not is_inside and waiting and log.time > waiting[0][0]:
                    heapq.heappush(waiting, (log.time, index, piece, pieces))
                    break


def line_as_terminal_shows(line: bytes) -> bytes:
    """Return a line as a terminal displays it: only the text after the last carriage return (progress bars)."""
    text = line.rstrip(b"\r\n")
    return text.rpartition(b"\r")[2] + (b"\n" if line.endswith(b"\n") else b"")


def print_first_failure(run: Run, failure: Mapping[str, str]) -> None:
    """Print which node failed first, and the end of its log, starting at the first traceback."""
    log = run.path / "logs" / failure["log"]
    out = LogOutput(not run.is_mine)
    lines = _failure_lines(log, _attempt_header(run.attempt))
    title = f"jobc: node {failure['node']} failed first: {failure['reason']}"
    if not lines:  # the node had not written to its own log yet
        out.write(f"{title}\n".encode())
    else:
        out.write(f"{title}; the end of {quote_shell_word(str(log))}:\n".encode())
        out.write(b"".join(line + b"\n" for line in lines))
        out.write(b"jobc: that failure was first; the lines below are older, or a consequence of it\n")
    out.flush()


def _last_position(path: Path, size: int, text: bytes) -> int:
    """Return the offset at which the text last occurs in a file's first `size` bytes, or `size` if it does not occur.

    Raises Unreadable.
    """
    end = size
    while end > 0:
        start = max(0, end - FAILURE_BYTES)
        position = b"".join(_read_blocks(path, start, min(size, end + len(text)))).rfind(text)
        if position >= 0:
            return start + position
        end = start
    return size


def _attempt_header(attempt: int | None) -> bytes:
    return f"=== jobc: attempt {attempt}, ".encode()


def _failure_lines(path: Path, header: bytes) -> list[bytes]:
    """Return the last lines of the attempt that begins with `header`: from the first traceback, or else the last 20."""
    size = regular_file_size(path)
    if not size:
        return []
    try:
        text = b"".join(_read_blocks(path, max(0, size - FAILURE_BYTES), size))
    except Unreadable:
        return []
    lines = text.split(b"\n")
    lines = [line_as_terminal_shows(line) for line in (lines if lines[-1] else lines[:-1])[-FAILURE_LINES:]]
    headers = [index for index, line in enumerate(lines) if line.startswith(header)]
    lines = lines[headers[-1] + 1 :] if headers else lines
    first = next((index for index, line in enumerate(lines) if _TRACEBACK in line), None)
    return lines[-FAILURE_END:] if first is None else lines[first:]


def offset_of_last_lines(path: Path, end: int, lines: int) -> tuple[int, int]:
    """Return where the last `lines` lines before byte `end` begin, and how many there are. Raises Unreadable.

    Reads at most 1 MiB per line, because a sparse file may be larger than any disk.
    """
    if not lines or not end:
        return end, 0
    found, offset, least = 0, end, max(0, end - lines * PIECE)
    with open_regular(path, follow=False) as file:
        file.seek(end - 1)
        newlines = lines + (file.read(1) == b"\n")
        while offset > least:
            start = max(least, offset - BLOCK)
            file.seek(start)
            block = file.read(offset - start)
            count = block.count(b"\n")
            if found + count < newlines:
                found, offset = found + count, start
                continue
            for _ in range(newlines - found):
                block = block[: block.rindex(b"\n")]
            return start + len(block) + 1, lines
    return least, found + 1 - (newlines > lines)


def _read_blocks(path: Path, start: int, end: int) -> Iterator[bytes]:
    """Yield the bytes of a regular file from `start` to `end`. Raises Unreadable."""
    with open_regular(path, follow=False) as file:
        file.seek(start)
        while start < end:
            block = file.read(min(BLOCK, end - start))
            if not block:
                return
            start += len(block)
            yield block


def _read_or_warn(log: PrintedLog, end: int) -> Iterator[bytes]:
    """Yield the pieces of a log, or print a warning if it cannot be read."""
    try:
        yield from log.read_lines_up_to(end)
    except Unreadable as error:
        print(f"warning: logs/{log.path.name} {error.reason}", file=sys.stderr)
        log.offset = end


def regular_file_size(path: Path) -> int | None:
    try:
        status = os.stat(path, follow_symlinks=False)
    except OSError:
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def _allow_open_files(wanted: int) -> None:
    """Raise the soft limit on open files if needed, because each node needs two."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted + 64:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
