"""How a node ended: each rank's exit file, the code that wins, and which rank to blame.

In   the run folder after everything has ended
Out  Verdict
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from . import exit_codes
from .run_folder import RunFolder, read_small

TRACEBACK = b"Traceback (most recent call last)"
MOST_LINES, USUAL_LINES = 100, 20  # shown of a failed rank's log: from the first traceback there, or so many
LOG_TAIL_BYTES = 256 * 1024
LATE = "killed, it did not end in time when told to"
GONE = "gone without a word, not by jobc; usually out of memory: dmesg tells; or a full disk: df tells"

# What torch 2.4 to 2.13 print when agents do not meet (torch/distributed/elastic/rendezvous, TCPStore).
RENDEZVOUS_WORDS = re.compile(
    rb"DistNetworkError|DistStoreError|Rendezvous\w*Error|client socket has (timed out|failed to connect)"
    rb"|server socket has failed to (bind|listen)|EADDRINUSE"
)


class RankEnd(NamedTuple):
    """The end of one rank. time_ns: wall clock; None = nobody saw it end."""

    rank: int
    code: int
    reason: str
    time_ns: int | None


class Verdict(NamedTuple):
    """The end of a node. first: the earliest rank with the winning code; None = all well, or none started."""

    code: int
    first: RankEnd | None
    reason: str


def judge(run: RunFolder, ranks: Sequence[int], status: int, said: bytes, asked: bool, killed: bool) -> Verdict:
    """The verdict on `ranks`.

    status: exit status of the launcher, torchrun or spawn
    said:   what it printed itself; read only when no rank has started
    asked:  this node was asked to stop
    killed: the supervisor killed what had not ended by then
    """
    stop = exit_codes.DONE if run.stop_mark.exists() else exit_codes.PREEMPTED
    ends = [rank_end(run, rank, stop, killed) for rank in ranks]
    known = [end for end in ends if end]
    if len(known) < len(ends) and asked:
        known.append(RankEnd(-1, stop, "stopped before all ranks had started", None))
    elif not known:
        return _no_rank_started(status, said)
    elif len(known) < len(ends) and all(end.code in (exit_codes.DONE, exit_codes.PREEMPTED) for end in known):
        # else it was ended because of the one that failed
        missing = [str(rank) for rank, end in zip(ranks, ends, strict=True) if not end]
        known.append(RankEnd(-1, exit_codes.CRASHED, f"rank {' '.join(missing)} never started", None))
    code = exit_codes.worst(end.code for end in known)
    first = min((end for end in known if end.code == code), key=lambda end: end.time_ns or sys.maxsize)
    if code == exit_codes.PEER_LOST and (left := _left_before(first, known)):
        first = first._replace(reason=left)
    if code in (exit_codes.DONE, exit_codes.PREEMPTED):  # whose work is lost, others may have saved theirs
        first = next((end for end in known if end.reason == LATE), first)
    blame = first if first.rank >= 0 and code not in (exit_codes.DONE, exit_codes.PREEMPTED) else None
    return Verdict(code, blame, f"rank {first.rank}: {first.reason}" if first.rank >= 0 else first.reason)


def _left_before(first: RankEnd, known: Sequence[RankEnd]) -> str:
    """Of a rank that has lost a peer: the peer is no rank that failed, when one had ended with 0 by then; "" else."""
    until = first.time_ns or 0
    ranks = [end.rank for end in known if end.code == exit_codes.DONE and (end.time_ns or until) < until]
    return f"rank {ranks[0]} had ended with 0 before the others were done" if ranks else ""


def rank_end(run: RunFolder, rank: int, stop: int, killed: bool) -> RankEnd | None:
    """None when the rank did not start in this attempt. stop: the code of a rank that was told to end."""
    if left := left_by(run, rank):
        return left
    state = read_small(run.rank_state(rank))
    if not state or state[1].get("attempt") != str(run.attempt):
        return None
    if killed or "signalled" in state[1]:  # when a launcher did so because a peer failed, the peer's code wins
        return RankEnd(rank, stop, LATE, None)
    return RankEnd(rank, exit_codes.CRASHED, GONE, None)


def left_by(run: RunFolder, rank: int) -> RankEnd | None:
    """What the wrapper of a rank wrote when the rank ended; None when it has not, or was killed with it."""
    left = read_small(run.rank_exit(rank))
    return left and RankEnd(rank, int(left[0]), left[1]["reason"], int(left[1]["time_ns"]))


def _no_rank_started(status: int, said: bytes) -> Verdict:
    if status == exit_codes.RENDEZVOUS_FAILED and said:  # of reach.py
        return Verdict(status, None, said.decode(errors="replace").splitlines()[-1].removeprefix("jobc: "))
    met = not RENDEZVOUS_WORDS.search(said)
    code = exit_codes.CRASHED if met else exit_codes.RENDEZVOUS_FAILED
    return Verdict(code, None, f"no rank started, the launcher ended with {status}")


def said_in(run: RunFolder, path: Path) -> bytes:
    """What a log holds of this attempt; of a long one the end."""
    try:
        with path.open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - LOG_TAIL_BYTES))
            text = log.read()
    except OSError:
        return b""
    header = text.rfind(f"=== jobc: attempt {run.attempt}, ".encode())
    return text[max(header, 0) :].partition(b"\n")[2]


def log_tail(run: RunFolder, path: Path) -> bytes:
    """The end of a log, of this attempt only: its last traceback, with those that led to it."""
    lines = said_in(run, path).splitlines(keepends=True)[-MOST_LINES:]
    tracebacks = [index for index, line in enumerate(lines) if TRACEBACK in line]
    return b"".join(lines[tracebacks[0] :] if tracebacks else lines[-USUAL_LINES:])
