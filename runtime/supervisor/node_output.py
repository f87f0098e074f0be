"""Write the output of a node's launcher and supervisor to its log and the console.

The output of a run begins with its header:

run 20260131-120000-1f2e of job audio, attempt 0, slurm job 4711
4 nodes x 2 ranks = world size 8, on node[1-4]; rendezvous at node1:23456
GPUs of this node: 0 1 (NVIDIA H100 80GB HBM3)
warning: 2 ranks x 8 threads on 1 CPU core of this node: training will be slow; set cpus=16 or more, or fewer threads
"""

from __future__ import annotations

import contextlib
import os
import select
import time
from collections.abc import Iterator, Mapping

from ..run_folder.run_folder import NodeLog
from ..system.text import count_with_noun

MOST_WAITING_BYTES = 4 * 1024 * 1024
PIECE_BYTES = 4096  # PIPE_BUF: a pipe reported as writable accepts this much without blocking (pipe(7))
FLUSH_S = 5.0  # how long flush() waits for a reader that is not reading
RECENT_BYTES = 32 * 1024  # lines that are still on the screen, or just above it


class Console:
    """Output to a terminal, pipe or file that never blocks the job.

    A blocking write would stall the training as soon as the pipe is full, for example when a terminal is paused with
    Ctrl-S or `less` has stopped reading. Output that does not fit is dropped with a note; the log file contains all of
    it.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._waiting = bytearray()
        self._dropped = False
        self._open = True

    @property
    def has_pending_output(self) -> bool:
        return bool(self._waiting)

    def write(self, text: bytes) -> None:
        self._waiting += text
        self._write_pending()
        if len(self._waiting) > MOST_WAITING_BYTES:
            del self._waiting[MOST_WAITING_BYTES:]
            self._dropped = True

    def flush(self) -> None:
        """Write the pending output. Give up once the reader has read nothing for FLUSH_S."""
        if self._dropped:
            self._waiting += b"\njobc: output was dropped here, the log has all of it\n"
        deadline = time.monotonic() + FLUSH_S
        while self._waiting and time.monotonic() < deadline:
            if self._write_pending(0.1):
                deadline = time.monotonic() + FLUSH_S

    def _write_pending(self, timeout_s: float = 0) -> bool:
        """Write as much as the reader accepts within the timeout. Return whether it accepted anything."""
        has_written = False
        while self._waiting and self._open and select.select([], [self._descriptor], [], timeout_s)[1]:
            try:
                del self._waiting[: os.write(self._descriptor, self._waiting[:PIECE_BYTES])]
                has_written = True
            except OSError:  # the terminal or the reader is gone
                self._open = False
        if not self._open:
            self._waiting.clear()
        return has_written


class NodeOutput(Console):
    """Output to the console and to the node's log."""

    def __init__(self, log: NodeLog, descriptor: int) -> None:
        super().__init__(descriptor)
        self._log = log
        self._recent = b""

    def print_jobc_line(self, line: str) -> None:
        """Print one of jobc's lines, on a new line even if the previous output does not end with a newline."""
        start = "" if self._recent.endswith(b"\n") or not self._recent else "\n"
        self.print(f"{start}jobc: {line}\n".encode())

    def print(self, text: bytes) -> None:
        reason = self._log.write(text)
        self.write(text)
        if reason:
            lost = "output is lost until the log can be written"
            self.write(f"jobc: cannot write logs/{self._log.name}: {reason}; {lost}\n".encode())
        self._recent = (self._recent + text)[-RECENT_BYTES:]

    def was_just_printed(self, text: bytes) -> bool:
        return text in self._recent

    def copy_chunk(self, output: int) -> bool:
        """Copy one chunk of the launcher's output. Return False at its end."""
        piece = os.read(output, 65536)
        self.print(piece)
        return bool(piece)

    def copy_until_end(self, output: int) -> None:
        os.set_blocking(output, False)
        with contextlib.suppress(BlockingIOError):
            while self.copy_chunk(output):
                pass

    def write_pending(self) -> None:
        """Write the output that the console did not accept earlier."""
        self.write(b"")

    def close(self) -> None:
        self._log.close()


def run_header_lines(environ: Mapping[str, str]) -> Iterator[str]:
    """Yield the first lines of a run, from the JOBC_ variables that node.py and the backend set."""
    nodes, procs, job_id = int(environ["JOBC_NODES"]), int(environ["JOBC_PROCS"]), environ.get("JOBC_JOB_ID", "")
    engine = f", job {job_id} of the engine" if job_id and job_id != environ["JOBC_RUN_ID"] else ""
    yield f"run {environ['JOBC_RUN_ID']} of {environ['JOBC_JOB_NAME']}, attempt {environ['JOBC_ATTEMPT']}{engine}"
    hosts = environ["JOBC_NODE_LIST"]
    meet = f"{environ['JOBC_HEAD_ADDR']}:{environ['JOBC_HEAD_PORT']}"
    size = f"{count_with_noun(nodes, 'node')} x {count_with_noun(procs, 'rank')} = world size {nodes * procs}"
    yield f"{size}, on {hosts}; rendezvous at {meet}"
    if int(environ.get("JOBC_GPUS") or 0):
        from ..system.gpus import describe_gpus  # packed only in jobs with GPUs

        yield f"GPUs of this node: {describe_gpus(environ) or 'none visible'}"


def warn_about_few_cores(environ: Mapping[str, str], ranks: int, cores: int) -> str:
    """Return a warning if the ranks that share these cores have more threads than there are cores, or "" otherwise."""
    threads = int(environ.get("OMP_NUM_THREADS") or 1)
    if cores >= ranks * threads:
        return ""
    demand = f"{count_with_noun(ranks, 'rank')} x {count_with_noun(threads, 'thread')}"
    given = f"{demand} on {count_with_noun(cores, 'CPU core')} of this node"
    return f"warning: {given}: training will be slow; set cpus={ranks * threads} or more, or fewer threads"
