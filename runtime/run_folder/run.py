"""Read a run folder: attempts, nodes, exit codes, last steps. Writes only state/.now.

The files are untrusted because another user may have written them. Invalid fields are treated as empty.
"""

from __future__ import annotations

import contextlib
import fcntl
import math
import os
import pwd
import re
import shlex
import time
from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path
from typing import NamedTuple

from ..exit_codes import CRASHED, DONE, PRIORITY
from ..system.processes import identify_machine, is_running
from ..system.text import one_line
from ..system.untrusted_files import Unreadable, open_regular
from ..system.values import number_or_none, read_keys, read_text
from .artifact_copies import copy_number_by_attempt

SILENT_S = 90  # a supervisor that has not touched its file for this long is dead or has lost access to its storage
QUIET_S = 30  # status reports a supervisor that has not touched its file, or a rank 0 without output, for this long
MOST_NODES = 20_000  # how many nodes' files are read in one folder; in another user's run, there may be any number
METRICS_BYTES = 16384  # how much is read from the end of a metrics file
_NODE = re.compile("node_[0-9]{1,9}")
_STEP = re.compile(r'"step": *([0-9]{1,18})\b')
_LOSS = re.compile(r'"loss[a-z_]*": *([-+]?[0-9.]{1,40}(?:[eE][-+]?[0-9]{1,4})?)')


class LastProgress(NamedTuple):
    """The last step in a rank's metrics."""

    step: int
    loss: float


class RecordedProcess:
    """A process that a file describes: `key=value` lines with host, boot, pid_namespace, pid and start_ticks."""

    def __init__(self, path: Path) -> None:
        keys = self.keys = read_keys(path)
        self.path = path
        self.host = keys.get("host", "")
        self.boot, self.pid_namespace = keys.get("boot", ""), keys.get("pid_namespace", "")
        self.pid, self.start_ticks = self._read_number("pid"), self._read_number("start_ticks")
        self.ended, self.exit = self._read_number("ended"), self._read_number("exit")

    def _read_number(self, key: str) -> int | None:
        return number_or_none(self.keys.get(key, ""))

    def location_kind(self) -> str:
        """Return where the process is: here, beside (in another PID namespace of this kernel), away, or unknown (the
        file does not say).
        """
        here = identify_machine()
        if self.host != here["host"]:
            return "away"
        if not self.pid_namespace:
            return "unknown"
        if self.boot != here.get("boot"):
            return "away"
        return "here" if self.pid_namespace == here.get("pid_namespace") else "beside"

    def describe_location(self) -> str:
        """Describe where the process is running if it is not visible from here."""
        host = one_line(self.host)
        if self.location_kind() == "beside":
            return f"in another container on {host}"
        if self.host == identify_machine()["host"]:
            return f"on another machine named {host}, or before this one was restarted"
        return f"on {host}"

    def is_running(self) -> bool:
        return self.pid is not None and self.start_ticks is not None and is_running(self.pid, self.start_ticks)

    def status(self, get_silent_s: Callable[[], float | None] = lambda: None) -> str:
        """Return the process's status, which is one of these:

        up:        it is running here.
        elsewhere: it is probably running elsewhere.
        ended:     it has recorded that it ended.
        dead:      it is certainly gone.
        silent:    it is dead or has lost access to its storage.
        get_silent_s: returns the seconds since the process touched the file, or None if unknown. Called only if needed.
        """
        if self.ended is not None:
            return "ended"
        over = "dead" if self.exit is None else "ended"
        location = self.location_kind()
        if location in ("here", "unknown") and self.is_running():
            return "up"
        if location == "here":
            return over
        lock = _lock_state(f"{self.path}.lock")
        if lock == "held":
            return "elsewhere"
        if location == "unknown" or (location, lock) == ("beside", "free"):
            return over
        silent_s = get_silent_s()
        return "silent" if silent_s is not None and silent_s > SILENT_S else "elsewhere"


class NodeState(RecordedProcess):
    """One node's state file, which its supervisor writes, locks, and touches every few seconds (peers.py)."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.name = path.name[5:]  # with a leading zero
        self.number = int(self.name)
        self.reason = self.keys.get("reason", "")
        self.started, self.attempt = self._read_number("started"), self._read_number("attempt")
        self.first_rank = self._read_number("first_rank") or 0
        self.idle_since = self._read_number("idle_since")  # like the next two, set only while its ranks may be hung
        self.idle_ranks, self.left_ranks = self.keys.get("idle_ranks", ""), self.keys.get("left_ranks", "")


class Run:
    """One run: RUN_ROOT/JOB/ID. attempt: the attempt to read, by default the newest"""

    def __init__(self, path: Path, attempt: int | None = None) -> None:
        self.path, self.id, self._attempt = path, path.name, attempt
        self._now: float | None = None
        self._nodes: list[NodeState] | None = None

    @property
    def attempt(self) -> int | None:
        return max(copy_number_by_attempt(self.path), default=None) if self._attempt is None else self._attempt

    @property
    def is_stopped(self) -> bool:
        return os.path.lexists(f"{self.path}/control/STOP")

    @property
    def is_mine(self) -> bool:
        return is_mine(self.path)

    def nodes(self) -> list[NodeState]:
        """Return the nodes' state files, ordered by name. The files are read only once."""
        if self._nodes is None:
            self._nodes = [NodeState(path) for path in self.node_files() if os.path.isfile(path)]
        return self._nodes

    def node_files(self) -> list[Path]:
        """Return the paths of the nodes' state files, ordered by name."""
        try:
            names = sorted(filter(_NODE.fullmatch, os.listdir(f"{self.path}/state")))
        except OSError:
            return []
        return [self.path / f"state/{name}" for name in names[:MOST_NODES]]

    def silent_s(self, path: Path) -> float | None:
        """Return the seconds since the file, such as a node's state file, was written or touched, by the storage's
        clock or, in another user's folder, by this machine's clock. Return None if unknown.
        """
        try:
            if self._now is None:
                self._now = self._storage_time() if self.is_mine else time.time()
            return self._now - os.lstat(path).st_mtime
        except OSError:
            return None

    def _storage_time(self) -> float:
        """Return the time in seconds since the epoch, by the storage's clock. Raises OSError."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(self.path / "state/.now", flags, 0o666)
        try:
            os.utime(descriptor)
            return os.fstat(descriptor).st_mtime
        finally:
            os.close(descriptor)

    def status_of(self, node: NodeState) -> str:
        return node.status(partial(self.silent_s, node.path))

    def statuses(self) -> dict[int, str]:
        """Return the status of each node, by node number."""
        return {node.number: self.status_of(node) for node in self.nodes()}

    def describe_remote_node(self) -> str:
        """Return `, node NN PLACE` for the first node that runs where its process is not visible, or "" if none."""
        return next(
            (f", node {n.name} {n.describe_location()}" for n in self.nodes() if self.status_of(n) == "elsewhere"), ""
        )

    def is_live(self) -> bool:
        """Return whether a node is running, or is on another machine and has not ended."""
        return any(status in ("up", "elsewhere") for status in self.statuses().values())

    def ended_node_count(self) -> int:
        """Return how many nodes have recorded an exit code in the newest attempt."""
        try:
            return sum(name.startswith("node_") for name in os.listdir(self.path / "exit" / str(self.attempt)))
        except OSError:
            return 0

    def worst_recorded_code(self, status: int, nodes: int) -> int:
        """Return the worst exit code that the nodes have recorded in the newest attempt, or 0 if all succeeded.

        status: exit status of the process that ran the nodes. It is used only if a node has recorded nothing, because a
        signal may have hit the process as a node exited.
        """
        codes = recorded_exit_codes(self.path / "exit" / str(self.attempt)).values()
        code = worst_code([code for code in codes if code in PRIORITY]) or DONE
        return CRASHED if code == DONE and status and self.ended_node_count() < nodes else code

    def first_failure(self) -> dict[str, str]:
        """Return `node`, `reason` and `log` (a file name) of the newest attempt's first failure, or {} if none."""
        path = self.path / "exit" / str(self.attempt) / "first"
        if not os.path.isfile(path):  # unlike Path.is_file(), it returns False if the folder cannot be read
            return {}
        keys = read_keys(path)
        node, rank = number_or_none(keys.get("node", "")), number_or_none(keys.get("rank", ""))
        log = f"node_{node or 0:02}.log" if rank is None else f"rank_{rank:02}.log"
        return {"node": "?" if node is None else str(node), "reason": keys.get("reason", ""), "log": log}

    def progress(self, rank: int) -> LastProgress | None:
        """Return the last step and loss in the rank's metrics, or None if there are none. Skips an incomplete line."""
        try:
            with open_regular(f"{self.path}/metrics/rank_{rank:02}.jsonl", follow=False) as file:
                size = os.fstat(file.fileno()).st_size
                file.seek(max(0, size - METRICS_BYTES))
                lines = file.read(METRICS_BYTES).decode(errors="replace").split("\n")
        except (Unreadable, OSError):
            return None
        return last_progress(lines)

    def created(self) -> float:
        """Return when the newest attempt was created, in seconds since the epoch."""
        try:
            return os.stat(f"{self.path}/artifact").st_mtime
        except OSError:
            return 0.0


def format_utc(seconds: int) -> str:
    """Return a time, given in seconds since the epoch, as `YYYY-MM-DD HH:MM:SS UTC`."""
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))
    except (OverflowError, ValueError, OSError):
        return "an unknown time"


def last_progress(lines: list[str]) -> LastProgress | None:
    """Return the last step and loss in metrics lines, or None if there are none. An incomplete line is ignored."""
    for line in reversed(lines):
        step, loss = _STEP.search(line), _LOSS.search(line)
        if line.endswith("}") and step and loss:
            with contextlib.suppress(ValueError):
                value = float(loss.group(1))
                if math.isfinite(value):  # JSON has no NaN or Inf
                    return LastProgress(int(step.group(1)), value)
    return None


def recorded_exit_codes(folder: Path) -> dict[str, int]:
    """Return the exit codes in RUN/exit/ATTEMPT, by file name: `first` or `node_NN`."""
    try:
        names = sorted(name for name in os.listdir(folder) if name == "first" or name.startswith("node_"))
    except OSError:
        return {}
    codes = {name: number_or_none(read_text(folder / name).split("\n")[0]) for name in names[:MOST_NODES]}
    return {name: code for name, code in codes.items() if code is not None}


def worst_code(codes: list[int]) -> int | None:
    """Return the exit code that has the highest priority, or None without codes. An unknown code is a crash (1)."""
    return min((code if code in PRIORITY else 1 for code in codes), key=PRIORITY.index, default=None)


def is_mine(path: Path) -> bool:
    """Return whether the file belongs to this user, or to the user that owns this user's files on the storage.

    NFS with root_squash or all_squash, and CIFS, change every new file's owner.
    """
    try:
        owner = path.stat().st_uid
    except OSError:
        return False
    return owner == os.geteuid() or owner == _owner_of_new_files(path.parent)


@lru_cache(maxsize=64)
def _owner_of_new_files(folder: Path) -> int:
    """Return the user ID that owns new files in the folder. Cached because the folder may contain a thousand runs."""
    probe = folder / f".jobc-owner.{os.getpid()}.{int.from_bytes(os.urandom(4), 'big')}"
    try:
        descriptor = os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError:
        return os.geteuid()
    try:
        return os.fstat(descriptor).st_uid
    finally:
        os.close(descriptor)
        with contextlib.suppress(OSError):
            probe.unlink()


def owner_name(path: Path) -> str:
    try:
        uid = path.stat().st_uid
    except OSError:
        return "an unknown user"
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


def jobctl_command(artifact: Path, verb: str) -> str:
    return f"{quote_shell_word(str(artifact / 'jobctl'))} {verb}"


def quote_shell_word(text: str) -> str:
    """Quote the text as one shell word, using bash's $'…' if it contains control characters."""
    if text.isprintable():
        return shlex.quote(text)
    return f"$'{''.join(map(_escape_character, text))}'"


def _escape_character(letter: str) -> str:
    code = ord(letter)
    if letter in "\\'":
        return f"\\{letter}"
    if letter.isprintable():
        return letter
    if code < 0x80:
        return repr(letter)[1:-1]
    if 0xDC80 <= code <= 0xDCFF:  # a byte that is not UTF-8
        return f"\\x{code - 0xDC00:02x}"
    return f"\\U{code:08x}"


def _lock_state(path: str) -> str:
    """Return whether a file's lock is held, free, or unknown (because the file does not exist or locks are not
    supported). This is reliable only between processes on one kernel.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return "unknown"
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return "held"
    except OSError:
        return "unknown"
    else:
        return "free"
    finally:
        os.close(descriptor)
