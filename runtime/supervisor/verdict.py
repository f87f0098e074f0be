"""Judge how a node ended, from each rank's exit file: the exit code that wins, and the rank to blame.

In:  the run folder, after all of the node's processes have ended.
Out: a Verdict, whose reason quotes the Python exception that terminated the rank: KeyError: 'label_17' (train.py:6).
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from .. import exit_codes
from ..run_folder.run_folder import RunFolder, parse_count, read_small_file
from ..system import processes
from ..system.text import count_with_noun, escape_unprintable
from ..system.untrusted_files import Unreadable, open_regular

RANK_FILE = re.compile(r"rank_[0-9]{2,9}")
TRACEBACK = "Traceback (most recent call last)"
MOST_LINES, USUAL_LINES = 100, 20  # lines printed from the end of a failed rank's log, with and without a traceback
LOG_TAIL_BYTES = 256 * 1024
MOST_EXITS_READ = 16  # the oldest files are read first: the rank that the others lost is among them
LATE = "killed, because it did not exit in time"
GONE = "killed by SIGKILL, not sent by jobc: probably out of memory (check dmesg) or disk full (check df)"

# Output of torch 2.4 to 2.13 when the agents' rendezvous fails (torch/distributed/elastic/rendezvous, TCPStore).
RENDEZVOUS_WORDS = re.compile(
    rb"DistNetworkError|DistStoreError|Rendezvous\w*Error|client socket has (timed out|failed to connect)"
    rb"|server socket has failed to (bind|listen)|EADDRINUSE"
)

# Output of torch 2.4 to 2.13 when another rank is gone, from Gloo, NCCL, its watchdog and TCPStore, and the trainer's
# own message (exit_rank.py).
LOST_PEER_WORDS = re.compile(
    r"rank [0-9]+ lost a peer: |gloo/transport|ncclRemoteError|ncclSystemError"
    r"|Watchdog caught collective operation timeout|Dist(Backend|Network|Store)Error"
)

# Last line that steps.py prints if the job's own lines abort the start
STEP_ENDED = re.compile(rb"jobc: ((?:before|per_node|then) .*|nodes? .* did not begin within .*)\n?")

# The user's program writes a rank's log, so it is untrusted: what is quoted from it is truncated and escaped.
MOST_CHARACTERS = 160
MOST_LINES_AFTER = 20  # the message, and libraries' output at exit; more lines mean that the program continued
# torch 2.3 to 2.13 print this before each line of a traceback (torch/distributed/c10d_logger, _distributed_excepthook)
RANK_PREFIX = re.compile(r"^\[rank[0-9]+\]: ?")
FRAME = re.compile(r'  File "([^"]+)", line ([0-9]+)')
EXCEPTION = re.compile(r"[A-Za-z_][\w.]*(: .*)?")
# Python 3.8 to 3.14 print no traceback for the script itself and for -m MODULE.
SYNTAX = re.compile(
    r"(?m)^  File \"([^\"\n]+)\", line ([0-9]+)\n(?: .*\n){1,3}((?:Syntax|Indentation|Tab)Error: .*)\s*\Z"
)
NO_MODULE = re.compile(r"\S*python[0-9.]*: ((?:No module named|Error while finding module) .*)\s*\Z")
LIBRARY = re.compile(r"/(site|dist)-packages/|/lib/python3|^<")


class RankEnd(NamedTuple):
    """How one rank ended. time_ns: wall clock time in ns, or None if unknown because no exit file was written."""

    rank: int
    code: int
    reason: str
    time_ns: int | None


class Verdict(NamedTuple):
    """How a node ended. first: the earliest failed rank with the winning code, or None if none failed or started."""

    code: int
    first: RankEnd | None
    reason: str


class RankSnapshot(NamedTuple):
    """A rank's state at one moment. code: None if not recorded; is_gone: whether it started but its wrapper is gone."""

    code: int | None
    is_gone: bool


def judge_node(
    run: RunFolder, node: int, planned: Sequence[int], status: int, said: bytes, asked: bool, killed: bool
) -> Verdict:
    """Return the verdict on a node's planned ranks and on unplanned ones that its launcher started.

    status: exit status of the launcher, which is torchrun or spawn.
    said:   the launcher's own output, which is used only if no rank has started.
    asked:  whether this node was asked to stop.
    killed: whether the supervisor killed processes that had not ended in time.
    """
    stop = exit_codes.DONE if run.stop_mark.exists() else exit_codes.PREEMPTED
    ranks = [*planned, *find_unplanned_ranks(run, node, planned)]
    ends = [rank_end(run, rank, stop, killed) for rank in ranks]
    recorded = [end for end in ends if end]
    if len(recorded) < len(ends) and asked:
        recorded.append(RankEnd(-1, stop, "stopped before all ranks had started", None))
    elif not recorded:
        return _verdict_without_ranks(status, said)
    elif len(recorded) < len(ends) and all(end.code in (exit_codes.DONE, exit_codes.PREEMPTED) for end in recorded):
        # a missing rank counts only if no other rank failed; otherwise, the other rank's failure is the cause
        missing = [str(rank) for rank, end in zip(ranks, ends, strict=True) if not end]
        reason = f"rank {' '.join(missing)} never started: this node should run {count_with_noun(len(planned), 'rank')}"
        recorded.append(RankEnd(-1, exit_codes.CRASHED, reason, None))
    code = exit_codes.worst_exit_code(end.code for end in recorded)
    first = min((end for end in recorded if end.code == code), key=lambda end: end.time_ns or sys.maxsize)
    if code in (exit_codes.DONE, exit_codes.PREEMPTED):  # report a rank that was killed and thus lost its work
        first = next((end for end in recorded if end.reason == LATE), first)
    if first.rank < 0 or code in (exit_codes.DONE, exit_codes.PREEMPTED):
        return Verdict(code, None, _prefix_rank(first, first.reason))
    blame = resolve_end_cause(run, first)
    return Verdict(blame.code, blame, describe_failed_rank(run, blame))


def describe_failed_rank(run: RunFolder, end: RankEnd) -> str:
    """Return why a rank failed: the exception at the end of its log if Python returned 1, or else the recorded reason.

    A program that exits by itself usually prints why just before, so the reason then includes the log's last line.
    """
    return _prefix_rank(end, _exception_line(run, end) or end.reason + _last_line(run, end))


def resolve_end_cause(run: RunFolder, end: RankEnd) -> RankEnd:
    """Return how a failed rank ended. The end counts as a crash if the peer that this rank lost had exited with 0.

    Such a crash is a bug in the program, whose ranks must all call the same collectives. No machine was lost, so the
    run must not be restarted as if one had been.
    """
    if not _has_lost_peer(run, end) or (left := _first_exited_rank(run, end)) is None:
        return end
    reason = f"lost rank {left}, which exited with 0 before the other ranks finished"
    return end._replace(code=exit_codes.CRASHED, reason=reason)


def _exception_line(run: RunFolder, end: RankEnd) -> str:
    if end.reason != "exit status 1":  # what Python returns for an exception
        return ""
    return last_exception_in_log(_read_rank_log(run, end), os.getcwd())


def _last_line(run: RunFolder, end: RankEnd) -> str:
    if end.code != exit_codes.CRASHED or not end.reason.startswith("exit status ") or "(SIG" in end.reason:
        return ""
    line = last_line_in_log(_read_rank_log(run, end))
    return f"; the last line of its log: {line}" if line else ""


def _read_rank_log(run: RunFolder, end: RankEnd) -> str:
    return read_attempt_log(run, run.rank_log_file(end.rank)).decode(errors="replace")


def _has_lost_peer(run: RunFolder, end: RankEnd) -> bool:
    """Return whether the rank failed because another rank was gone, judging by its exit code and its log."""
    aborted = end.code == exit_codes.PEER_LOST or "SIGABRT" in end.reason
    return LOST_PEER_WORDS.search(_read_rank_log(run, end) if aborted else _exception_line(run, end)) is not None


def _prefix_rank(end: RankEnd, reason: str) -> str:
    return f"rank {end.rank}: {reason}" if end.rank >= 0 else reason


def _first_exited_rank(run: RunFolder, end: RankEnd) -> int | None:
    """Return a rank that exited with 0 before this one failed, or None if no exit file here records such a rank."""
    with contextlib.suppress(OSError), os.scandir(run.rank_exit_file(0).parent) as entries:
        files = [(entry.stat().st_mtime_ns, entry.name) for entry in entries if RANK_FILE.fullmatch(entry.name)]
        ranks = [int(name[5:]) for _, name in sorted(files)]
        for other in filter(None, (end_from_exit_file(run, rank) for rank in ranks[:MOST_EXITS_READ])):
            if other.code == exit_codes.DONE and (other.time_ns or 0) < (end.time_ns or 0):
                return other.rank
    return None


def find_unplanned_ranks(run: RunFolder, node: int, planned: Sequence[int]) -> list[int]:
    """Return `node`'s ranks beyond the planned world size, as started by an edited launcher file (accelerate.yaml)."""
    world = len(planned) * int(os.environ.get("JOBC_NODES") or node + 1)
    names: set[str] = set()
    for folder in (run.rank_exit_file(0).parent, run.rank_state_file(0).parent):
        with contextlib.suppress(OSError):
            names.update(os.listdir(folder))
    numbers = sorted(int(name[5:]) for name in names if RANK_FILE.fullmatch(name))
    return [rank for rank in numbers if rank >= world and _belongs_to(run, node, rank)]


def _belongs_to(run: RunFolder, node: int, rank: int) -> bool:
    exit_file, state = read_small_file(run.rank_exit_file(rank)), run.keys_of_attempt(run.rank_state_file(rank))
    return any(keys.get("node") == str(node) for keys in (exit_file and exit_file[1], state) if keys)


def take_rank_snapshot(run: RunFolder, rank: int) -> RankSnapshot:
    if exit_file := read_small_file(run.rank_exit_file(rank)):
        return RankSnapshot(parse_count(exit_file[0], exit_codes.CRASHED), False)
    state = run.keys_of_attempt(run.rank_state_file(rank))
    if state is None:
        return RankSnapshot(None, False)
    is_running = processes.is_running(parse_count(state.get("pid")), parse_count(state.get("start_ticks")))
    return RankSnapshot(None, not is_running)


def has_rank_ended_first(
    first: Callable[[], Iterable[RankSnapshot]], second: Callable[[], Iterable[RankSnapshot]]
) -> bool:
    """Return whether a rank ended early on its own, rather than because another rank failed first.

    first:  reads the planned ranks.
    second: reads all of the node's ranks.
    The ranks are read twice because one reading is not atomic. A launcher signals the others only once the failed
    rank's code has been recorded or its wrapper is gone, so the second reading finds the failure.
    """
    return _were_stopped(tuple(first())) and _were_stopped(tuple(second()))


def _were_stopped(ranks: Sequence[RankSnapshot]) -> bool:
    codes = {rank.code for rank in ranks}
    failed = codes - {None, exit_codes.DONE, exit_codes.PREEMPTED}
    return exit_codes.PREEMPTED in codes and not failed and not any(rank.is_gone for rank in ranks)


def rank_end(run: RunFolder, rank: int, stop: int, killed: bool) -> RankEnd | None:
    """Return how a rank ended, or None if it did not start in this attempt. stop: exit code for a stopped rank."""
    if end := end_from_exit_file(run, rank):
        return end
    state = run.keys_of_attempt(run.rank_state_file(rank))
    if state is None:
        return None
    if killed or "signalled" in state:  # a launcher may have signaled it because a peer failed, whose code wins
        return RankEnd(rank, stop, LATE, None)
    return RankEnd(rank, exit_codes.CRASHED, GONE, None)


def end_from_exit_file(run: RunFolder, rank: int) -> RankEnd | None:
    """Return how a rank ended, from its wrapper's exit file, or None if the wrapper is running or was killed."""
    content = read_small_file(run.rank_exit_file(rank))
    try:
        return content and RankEnd(rank, int(content[0]), content[1]["reason"], int(content[1]["time_ns"]))
    except (KeyError, ValueError):  # someone else wrote the file
        return None


def _verdict_without_ranks(status: int, launcher_output: bytes) -> Verdict:
    if status == exit_codes.RENDEZVOUS_FAILED and launcher_output:  # from reach.py
        return Verdict(status, None, launcher_output.decode(errors="replace").splitlines()[-1].removeprefix("jobc: "))
    ended = STEP_ENDED.fullmatch((launcher_output.splitlines() or [b""])[-1])
    if ended and status in exit_codes.PRIORITY:
        return Verdict(status, None, ended[1].decode(errors="replace"))
    met = not RENDEZVOUS_WORDS.search(launcher_output)
    code = exit_codes.CRASHED if met else exit_codes.RENDEZVOUS_FAILED
    return Verdict(code, None, f"no rank started; the launcher exited with {status}")


def read_attempt_log(run: RunFolder, path: Path) -> bytes:
    """Return the part of a log that this attempt wrote, but no more than the last 256 KiB."""
    try:
        with open_regular(path, follow=False) as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - LOG_TAIL_BYTES))
            text = log.read(LOG_TAIL_BYTES)
    except (OSError, Unreadable):
        return b""
    header = text.rfind(f"=== jobc: attempt {run.attempt}, ".encode())
    return text[max(header, 0) :].partition(b"\n")[2]


def read_log_tail(run: RunFolder, path: Path) -> bytes:
    """Return the end of this attempt's log: from the first traceback in its last 100 lines, or else 20 lines."""
    lines = read_attempt_log(run, path).splitlines(keepends=True)[-MOST_LINES:]
    tracebacks = [index for index, line in enumerate(lines) if TRACEBACK.encode() in line]
    return b"".join(lines[tracebacks[0] :] if tracebacks else lines[-USUAL_LINES:])


def last_exception_in_log(log: str, code: str) -> str:
    """Return the last exception in a log, with the line in the user's code that raised it, as one printable line.

    Return "" if the log ends neither with a traceback nor with Python's message that it cannot compile the script or
    find the module of -m.
    code: folder of the user's code. The file's path is given relative to it.
    """
    lines = [RANK_PREFIX.sub("", line) for line in log.split("\n")]
    begins = [index for index, line in enumerate(lines) if TRACEBACK in line]
    if not begins:
        return _without_traceback("\n".join(lines[-MOST_LINES_AFTER:]), code)
    frames: list[tuple[str, str]] = []
    for index, line in enumerate(lines[begins[-1] + 1 :], begins[-1] + 1):
        if frame := FRAME.match(line):
            frames.append((frame[1], frame[2]))
        elif not line.startswith(" "):
            is_last = len(lines) - index <= MOST_LINES_AFTER and EXCEPTION.fullmatch(line)
            return f"{_escape_and_shorten(line)}{_user_code_position(frames, code)}" if is_last else ""
    return ""


def last_line_in_log(log: str) -> str:
    """Return the last line that is not blank, or "" if there is none. For a progress bar, return its last state."""
    line = log.rstrip().rpartition("\n")[2]
    return _escape_and_shorten(RANK_PREFIX.sub("", line).rpartition("\r")[2].strip())


def _without_traceback(end_of_log: str, code: str) -> str:
    if syntax := SYNTAX.search(end_of_log):
        return f"{_escape_and_shorten(syntax[3])}{_user_code_position([(syntax[1], syntax[2])], code)}"
    last_line = end_of_log.rstrip("\n").rpartition("\n")[2]
    no_module = NO_MODULE.match(last_line)
    return _escape_and_shorten(no_module[1]) if no_module else ""


def _user_code_position(frames: list[tuple[str, str]], code: str) -> str:
    user_frames = [frame for frame in frames if not LIBRARY.search(frame[0])] or frames
    if not user_frames:
        return ""
    file, line = user_frames[-1]
    name = file[len(code) + 1 :] if file.startswith(f"{code}/") else PurePosixPath(file).name
    return f" ({_escape_and_shorten(name)}:{line})"


def _escape_and_shorten(text: str) -> str:
    text = escape_unprintable(text)
    return text if len(text) <= MOST_CHARACTERS else f"{text[: MOST_CHARACTERS - 1]}…"
