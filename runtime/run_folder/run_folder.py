"""Define the paths in a run folder that the runtime uses, write small files atomically, and append to logs.

A small file has `key=value` lines, so that bash can read it as easily as Python.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import select
import stat
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from .. import exit_codes
from ..system.untrusted_files import Unreadable, parse_json, read_bytes

NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
RESERVED_BYTES = 4096  # one block on most file systems
PROGRESS = "state/progress"  # where attempt_counter.py counts the starts that completed no new step
COMMANDS = "state/commands"  # how many commands of a job with `then` have ended (then.py)
REQUEUES = "JOBC_REQUEUES"  # set if the batch job that runs the ranks decides whether to requeue them, and prints that
REACHED = "state/reached"  # last step of earlier attempts whose metrics are not in this folder


class RunFolder:
    """One attempt of one run. `path` is JOBC_RUN_DIR, `attempt` is JOBC_ATTEMPT."""

    def __init__(self, path: Path, attempt: int) -> None:
        self.path, self.attempt = path, attempt
        self.exits = path / "exit" / str(attempt)
        self.first_failure = self.exits / "first"  # which node failed first, and why (peers.py)
        self.first_stop_file = self.exits / "stop"  # the first node that was asked to stop early, and the reason
        self.steps = self.exits / "steps"  # the nodes' progress with `before` and `per_node` (steps.py)
        self.mpi_daemon = self.exits / "mpi_daemon"  # node 0's command for mpirun's daemons (mpi.py)
        self.ended_commands_file = path / COMMANDS
        self.rendezvous_file = path / "state/head"  # node 0's rendezvous port
        self.supervisor_address_file = path / "state/link"  # address of node 0's supervisor (links.py)
        self.resume_command = path / "state/resume"  # `command=`; missing if the backend has none, and in jobctl smoke
        self.code = path / "code"  # working copy of the user's code; missing if the ranks run in another folder
        self.checkpoints = path / "checkpoints"  # of jobc's own trainer
        self.stop_mark = path / "control/STOP"  # if it exists, a user has stopped the run: it exits with 0 for good

    @classmethod
    def from_environment(cls) -> RunFolder:
        """Return the run folder from the JOBC_ variables. Raises KeyError or ValueError if they are incomplete."""
        return cls(Path(os.environ["JOBC_RUN_DIR"]), int(os.environ["JOBC_ATTEMPT"]))

    def node_state_file(self, node: int) -> Path:
        return self.path / f"state/node_{node:02}"

    def rank_state_file(self, rank: int) -> Path:
        return self.path / f"state/rank_{rank:02}"

    def node_exit_file(self, node: int) -> Path:
        return self.exits / f"node_{node:02}"

    def rank_exit_file(self, rank: int) -> Path:
        return self.exits / f"rank_{rank:02}"

    def steps_process_file(self, node: int) -> Path:
        """Return the file that describes the process that is running a node's steps."""
        return self.steps / f"process_{node}"

    def node_log_file(self, node: int) -> Path:
        return self.path / f"logs/node_{node:02}.log"

    def launcher_log_file(self, node: int) -> Path:
        return self.path / f"logs/launcher_{node:02}.log"

    def rank_log_file(self, rank: int) -> Path:
        return self.path / f"logs/rank_{rank:02}.log"

    def keys_of_attempt(self, path: Path) -> dict[str, str] | None:
        """Return the keys of a small file that this attempt wrote, or None if it has not written the file."""
        content = read_small_file(path)
        return content[1] if content and content[1].get("attempt") == str(self.attempt) else None

    def open_log(self, path: Path, who: str) -> int:
        """Open a log for appending, and write this attempt's header line. One file contains all attempts."""
        path.parent.mkdir(parents=True, exist_ok=True)
        log = open_for_append(path)
        os.write(log, self.log_header(who).encode())
        return log

    def log_header(self, who: str) -> str:
        when = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
        return f"=== jobc: attempt {self.attempt}, {who} on {os.uname().nodename}, {when}\n"


def open_for_append(path: Path, access: int = os.O_WRONLY) -> int:
    """Open a regular file for appending, create it if needed, and return its descriptor.

    Raises OSError for a symbolic link, which anyone with write access to the run folder could point to any of this
    user's files, and for a named pipe, without blocking on it.
    """
    descriptor = os.open(path, access | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "not a regular file", str(path))


def write_small_file(
    path: Path, first_line: str = "", keys: Mapping[str, object] | None = None, private: bool = False
) -> None:
    """Write `first_line`, if any, then `key=value` lines. A reader sees either the old file or the complete new one.

    private: whether only this user may read the file.
    """
    lines = [first_line] if first_line else []
    lines += [f"{key}={_one_line(str(value))}" for key, value in (keys or {}).items()]
    content = "".join(line + "\n" for line in lines).encode()
    try:
        replace_file(path, content, mode=0o600 if private else 0o666)
    except OSError as error:
        if error.errno not in NO_SPACE or not _write_in_reserve(path, content):
            raise


def replace_file(path: Path, content: bytes, changed: float | None = None, mode: int = 0o666) -> None:
    """Create a file, or replace it atomically. Follows no symbolic links. Raises OSError.

    changed: the file's modification time, in seconds since the epoch; by default, now
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with open(os.open(part, flags, mode), "wb") as opened:
            opened.write(content)
        if changed is not None:
            os.utime(part, (changed, changed))
        os.replace(part, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            part.unlink()


def reserve_small_file(path: Path) -> None:
    """Reserve disk space for a small file, so that write_small_file() can write it even if the disk is full by then.

    This works only on file systems that overwrite files in place, so not on btrfs and ZFS, which copy on write.
    """
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        _reserve_path(path).write_bytes(b"\n" * RESERVED_BYTES)


def release_reserved_file(path: Path) -> None:
    with contextlib.suppress(OSError):
        _reserve_path(path).unlink(missing_ok=True)


def _reserve_path(path: Path) -> Path:
    return path.with_name(f".{path.name}.reserved")


def _write_in_reserve(path: Path, content: bytes) -> bool:
    """Write the content into the reserve file, whose blocks are already allocated, and rename it to `path`.

    The old `path` makes room for a new reserve.
    """
    if len(content) > RESERVED_BYTES:
        content = content[: RESERVED_BYTES - 1] + b"\n"
    reserve = _reserve_path(path)
    try:
        with reserve.open("r+b", buffering=0) as file:
            file.write(content)
            file.truncate()
        reserve.replace(path)
    except OSError:
        return False
    reserve_small_file(path)
    return True


def read_small_file(path: Path) -> tuple[str, dict[str, str]] | None:
    """Return the first line ("" if it is `key=value`) and the keys of a small file, or None if it cannot be read."""
    try:
        return parse_small_file(read_bytes(path, follow=False))
    except Unreadable:
        return None


def parse_small_file(content: bytes) -> tuple[str, dict[str, str]]:
    """Parse a small file into its first line and keys. Only a newline ends a line: values may contain U+0085."""
    lines = content.decode(errors="replace").split("\n")
    first_line = lines.pop(0) if "=" not in lines[0] else ""
    return first_line, dict(line.split("=", 1) for line in lines if "=" in line)


def parse_count(text: object, otherwise: int = 0) -> int:
    """Return a small file's value as an integer, or `otherwise` if it is not an integer of at most 19 digits."""
    return int(str(text)) if re.fullmatch("[0-9]{1,19}", str(text)) else otherwise


def last_step_in_metrics(metrics: bytes) -> int | None:
    """Return the last step in metrics lines, or None if there is none. Incomplete lines are ignored."""
    for line in reversed(metrics.splitlines()):
        try:
            return int(parse_json("metrics", line)["step"])
        except (Unreadable, ValueError, KeyError, TypeError):
            continue
    return None


def _one_line(text: str) -> str:
    return " ".join(text.split()) if "\n" in text else text


def record_first_failure(run: RunFolder, code: str, keys: Mapping[str, object]) -> None:
    """Record in exit/ATTEMPT/first that a node failed, unless an earlier failure is recorded.

    Two nodes may write at the same time, so failed nodes call this function again. keys: node, rank, time_ns, reason
    """
    recorded = read_small_file(run.first_failure)
    if recorded and not is_earlier_failure(code, keys, *recorded):
        return
    with contextlib.suppress(OSError):  # for example, the disk is full
        write_small_file(run.first_failure, code, keys)


def is_earlier_failure(code: str, keys: Mapping[str, object], known_code: str, known: Mapping[str, object]) -> bool:
    return _failure_sort_key(code, keys) < _failure_sort_key(known_code, known)


def _failure_sort_key(code: str, keys: Mapping[str, object]) -> tuple[bool, int]:
    """Return a sort key that puts the earliest failure first, and ranks that only lost a peer after all others."""
    return code == str(exit_codes.PEER_LOST) and "rank" in keys, parse_count(keys.get("time_ns"))


class LossyLog:
    """Appends to a log. Output that a full disk or pipe cannot hold is dropped, and a later line reports how much was
    lost.
    """

    def __init__(self, descriptor: int, wait_s: float = 0) -> None:
        """wait_s: for a non-blocking pipe, how long write() waits for its reader, unless it is dropping output"""
        self.descriptor, self.wait_s = descriptor, wait_s
        self._dropped_bytes, self._reason = 0, ""

    def write(self, text: bytes) -> str:
        """Append the text. If this is the first write that fails, return the reason; otherwise, return ""."""
        was_dropping = self._dropped_bytes > 0
        deadline = time.monotonic() + (0 if was_dropping else self.wait_s)
        try:
            if was_dropping:
                note = f"\njobc: dropped {self._dropped_bytes} bytes of output here: {self._reason}\n"
                write_all_bytes(self.descriptor, note.encode())
                self._dropped_bytes = 0
            while text:
                text = text[self._write_some(text, deadline) :]
        except OSError as error:
            self._dropped_bytes += len(text)
            self._reason = "the reader is too slow" if isinstance(error, BlockingIOError) else str(error.strerror)
            return "" if was_dropping else self._reason
        return ""

    def _write_some(self, text: bytes, deadline: float) -> int:
        """Write what fits, and return its size. If a pipe is full, wait for its reader and return 0. Raises OSError."""
        try:
            return os.write(self.descriptor, text)
        except BlockingIOError:
            remaining_s = deadline - time.monotonic()
            if remaining_s <= 0 or not select.select([], [self.descriptor], [], remaining_s)[1]:
                raise
            return 0


def write_all_bytes(descriptor: int, piece: bytes) -> None:
    while piece:
        piece = piece[os.write(descriptor, piece) :]


class NodeLog:
    """A node's log, logs/node_NN.log: one file for all attempts.

    timed: also write logs/.node_NN.times, with a line `SECONDS OFFSET` for each second with output. These times,
    by which `jobctl logs` merges all nodes' logs, are in a separate file so that log lines stay unchanged.
    """

    def __init__(self, run: RunFolder, node: int, timed: bool) -> None:
        path = run.node_log_file(node)
        path.parent.mkdir(parents=True, exist_ok=True)
        self._noted_s = 0
        self._times = -1
        if timed:
            self._times = open_for_append(path.with_name(f".{path.stem}.times"))
            self._record_time(path.stat().st_size if path.exists() else 0)
        self.name = path.name
        self._log = LossyLog(run.open_log(path, f"node {node}"))

    def write(self, text: bytes) -> str:
        """Append the text. Return why output is dropped, once each time the disk becomes full; otherwise, return ""."""
        with contextlib.suppress(OSError):  # a full disk must not stop the training
            self._record_time(os.fstat(self._log.descriptor).st_size)
        return self._log.write(text)

    def _record_time(self, offset: int) -> None:
        """Record that the output at byte `offset` was written now."""
        now_s = int(time.time())
        if self._times >= 0 and now_s != self._noted_s:
            self._noted_s = now_s
            os.write(self._times, b"%d %d\n" % (now_s, offset))

    def close(self) -> None:
        for descriptor in (self._log.descriptor, self._times):
            if descriptor >= 0:
                os.close(descriptor)
