"""Join an attempt of a run through the run folder that all nodes share (storage.run=shared).

In:  a node, and the engine's ID for the submission, which stays the same when nodes are restarted.
Out: the attempt's number, once all nodes have joined it. Otherwise, raises NodeMustNotStart, StartFailure or
     JoinFailure.

    RUN/starts/ATTEMPT.SUBMISSION/NODE   node NODE has joined that attempt (a folder: mkdir is atomic)

A node that is restarted begins the next attempt and announces it in exit/ATTEMPT/first. The other nodes' supervisors
are watching that file: they exit with 69 or 75, the engine restarts their nodes too, and all nodes join the next
attempt.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from .. import exit_codes
from ..run_folder.run import SILENT_S, NodeState, Run, recorded_exit_codes
from ..system.failure import NodeMustNotStart
from ..system.values import number_or_none, read_keys
from .join_attempt import JoinFailure, StartFailure, call_or_fail_start, start_failure_for_error

LOOK_S = 0.5  # pause between checks of which nodes have joined
BEAT_LOOK_S = 1.0  # pause between checks of whether another submission is alive
FATAL = (exit_codes.DATA_BROKEN, exit_codes.RENDEZVOUS_FAILED, exit_codes.CRASHED)
_START = re.compile(r"(0|[1-9][0-9]{0,17})\.([^/\x00-\x1f\x7f]+)")


class AttemptStart(NamedTuple):
    """A folder RUN/starts/ATTEMPT.SUBMISSION."""

    attempt: int
    submission: str


def join_run(
    run: Path, node: int, nodes: int, submission: str, most: int, timeout_s: float, prepare: Callable[[int], None]
) -> int:
    """Join an attempt, wait until all nodes have joined it, and return its number.

    most: how many restarts are allowed (lifecycle.max_requeues).
    prepare: called on node 0 with the attempt before any node starts in it, possibly several times.
    Raises StartFailure, JoinFailure, and NodeMustNotStart: with exit code 0 if jobctl stop was called, or 69 if another
    node was restarted.
    """
    starts = run / "starts"
    try:
        starts.mkdir(parents=True, exist_ok=True)
        (run / "exit").mkdir(exist_ok=True)
    except OSError as error:
        hint = "storage.root must be on a volume that the pod can write to"
        raise StartFailure(exit_codes.CRASHED, f"cannot write to {run}", hint) from error
    while True:
        attempt = _join_or_continue_attempt(run, submission)
        if Run(run).is_stopped:
            raise NodeMustNotStart(exit_codes.DONE, "the run was stopped")
        if node == 0:
            prepare(attempt)
        joined = starts / f"{attempt}.{submission}"
        call_or_fail_start(f"create the folder {joined}", joined.mkdir, exist_ok=True)
        try:
            (joined / str(node)).mkdir()
            break
        except FileExistsError:
            _begin_next_attempt(run, attempt, node, submission, most)
        except OSError as error:
            raise start_failure_for_error(f"create the folder {joined / str(node)}", error) from error
    _wait_for_nodes(run, attempt, joined, node, nodes, timeout_s)
    return attempt


def started_attempts(starts: Path, submission: str | None = None) -> list[AttemptStart]:
    """Return the attempts that have begun, in ascending order. submission: None for those of all submissions"""
    try:
        matches = [_START.fullmatch(name) for name in os.listdir(starts)]
    except OSError:
        return []
    found = [AttemptStart(int(match[1]), match[2]) for match in matches if match]
    return sorted(start for start in found if submission in (None, start.submission))


def wait_until_others_silent(run: Path, attempt: int) -> None:
    """Wait until no node of another submission's attempt can be alive. Raises NodeMustNotStart if one is alive.

    A supervisor touches its state file every few seconds (peers.py).
    """
    first_beats: dict[str, int] = {}
    is_announced = False
    while True:
        unknown = ""
        for path in Run(run).node_files():
            try:
                beat = path.stat().st_mtime_ns  # before the file is read, because its last write records the end
            except OSError:
                continue
            node = NodeState(path)
            silent_s = Run(run).silent_s(node.path)
            is_silent = silent_s is not None and silent_s > SILENT_S
            if node.attempt != attempt or node.ended is not None or is_silent:
                continue
            unknown = node.name
            if first_beats.setdefault(unknown, beat) != beat:
                why = f"run {run.name} is live: node {unknown} of another job is writing to it"
                hint = "stop that job first, or start a new run: jobctl submit without --resume"
                raise NodeMustNotStart(exit_codes.CRASHED, f"{why}; {hint}")
        if not unknown:
            return
        if not is_announced:
            is_announced = True
            words = f"jobc: node {unknown} of another job may still be running"
            print(f"{words}: waiting until it has been inactive for {SILENT_S} s", flush=True)
        time.sleep(BEAT_LOOK_S)


def _join_or_continue_attempt(run: Path, submission: str) -> int:
    """Return the newest attempt if this submission began it, or else the next one: a new submission resumes the run."""
    known = started_attempts(run / "starts")
    if not known:
        return 0
    if known[-1].submission == submission:
        return known[-1].attempt
    wait_until_others_silent(run, known[-1].attempt)
    with contextlib.suppress(FileNotFoundError):
        (run / "control/STOP").unlink()
    return known[-1].attempt + 1


def _begin_next_attempt(run: Path, attempt: int, node: int, submission: str, most: int) -> None:
    """Begin the next attempt. Called if this node had already joined `attempt`."""
    ends = run / "exit" / str(attempt)
    codes = recorded_exit_codes(ends)
    done = next((name for name, code in codes.items() if code == exit_codes.DONE and name != "first"), "")
    if done:
        title = f"node {done[len('node_') :]} has already finished, so this node cannot restart alone"
        raise JoinFailure(attempt, exit_codes.CRASHED, title, "resume with jobctl submit --resume")
    for code in FATAL:  # the engine may see only nodes that exited with 69 or 75 because of the failed node
        if code in codes.values():
            raise NodeMustNotStart(code, f"attempt {attempt} failed with this exit code, and restarting would not help")
    # count only up to this attempt, because another node may have begun the next one already
    began = sum(start.attempt <= attempt for start in started_attempts(run / "starts", submission))
    if began > most:
        title = f"restart limit of {most} reached"
        raise JoinFailure(attempt, exit_codes.CRASHED, title, "raise lifecycle.max_requeues")
    next_attempt = run / "starts" / f"{attempt + 1}.{submission}"
    call_or_fail_start(f"write to {ends}", _announce_restart, ends, node)
    call_or_fail_start(f"create the folder {next_attempt}", next_attempt.mkdir, exist_ok=True)


def _announce_restart(ends: Path, node: int) -> None:
    """Record in `first` that the attempt has ended, unless a failure is recorded there already."""
    ends.mkdir(parents=True, exist_ok=True)
    new = ends / f".first.restart_{node}"  # each node writes its own, also where several nodes share a machine
    new.write_text(f"{exit_codes.PEER_LOST}\nnode={node}\nreason=node {node} was restarted\n")
    with contextlib.suppress(OSError):
        os.link(new, ends / "first")
    new.unlink()


def _wait_for_nodes(run: Path, attempt: int, joined: Path, node: int, nodes: int, timeout_s: float) -> None:
    until = time.monotonic() + timeout_s
    announced = ""
    while True:
        here = set(os.listdir(joined))  # opening the folder makes a network file system refresh its cache
        absent = " ".join(str(other) for other in range(nodes) if str(other) not in here)
        if not absent:
            return
        if Run(run).is_stopped:
            raise NodeMustNotStart(exit_codes.DONE, "the run was stopped")
        first = run / "exit" / str(attempt) / "first"
        if first.exists():
            keys = read_keys(first)
            who = number_or_none(keys.get("node", ""))
            reason = keys.get("reason", "")
            raise NodeMustNotStart(exit_codes.PEER_LOST, f"node {'' if who is None else who}: {reason}")
        if announced != absent:
            announced = absent
            print(f"jobc: node {node} is ready, waiting for {absent}", flush=True)
        if time.monotonic() >= until:
            title = f"timeout: these nodes did not join within {timeout_s:g} s: {absent}"
            hint = "jobctl status prints what these nodes are waiting for"
            raise JoinFailure(attempt, exit_codes.RENDEZVOUS_FAILED, title, hint)
        time.sleep(LOOK_S)
