"""Coordinate a run in a bucket, without a shared folder: attempt number, owner, and which nodes have joined.

    state/run                     written with the run: job, created, init_from (the run whose weights it starts from)
    starts/00002/owner            the engine's ID for the submission that began attempt 2; its first node writes it
    starts/00002/node_01          node 1 has joined that attempt
    state/node_01                 node 1's state; its supervisor writes it every BEAT_S as a heartbeat
    exit/2/…, logs/…, metrics/…, checkpoints/…, final/…, control/…    as in a run folder (bucket_mirror.py)

Every object is written as a whole, and none is renamed. An object that only the first node may write is put with
If-None-Match and read again after SETTLE_S, because in stores that ignore this header, the last writer wins. Times are
those of the store's clock.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from .. import exit_codes
from ..run_folder.run_folder import parse_small_file
from ..system.failure import NodeMustNotStart
from .bucket import Bucket

BEAT_S = 20.0
SILENT_S = 90.0  # a node that has written nothing for this long is considered lost
SETTLE_S = 1.0
GRAIN_S = 2.0  # ages are differences of whole seconds
LOOK_S = 1.0

OWNER = re.compile("starts/([0-9]{5,9})/owner")  # other programs may write objects with other names
STOP, SAVE = "control/STOP", "control/SAVE"


class SubmittedNode(NamedTuple):
    """One node of a job that an engine started.

    id: the submission's ID, which is kept when the engine restarts the node.
    most: how many restarts are allowed.
    """

    id: str
    node: int
    nodes: int
    most: int
    timeout_s: float


class BucketRun:
    """A run in a bucket. folder: JOB/RUN_ID, the run's key; pause: time.sleep, replaced only in tests."""

    def __init__(self, bucket: Bucket, folder: str, pause: Callable[[float], None] = time.sleep) -> None:
        self.bucket, self.folder, self._pause = bucket, folder, pause

    def object_key(self, name: str) -> str:
        return f"{self.folder}/{name}"

    def get(self, name: str) -> bytes | None:
        return self.bucket.get(self.object_key(name))

    def put(self, name: str, content: bytes) -> None:
        self.bucket.put(self.object_key(name), content)

    def object_ages(self, prefix: str) -> dict[str, float]:
        """Return the age in seconds of each object under `prefix`, by name."""
        start = len(self.folder) + 1
        return {listed.key[start:]: listed.age_s for listed in self.bucket.list(self.object_key(prefix))}

    def read_complete_log(self, name: str) -> bytes | None:
        """Return a log or metrics file with all attempts' lines, or None if there is none."""
        parts = sorted(self.object_ages(f"{name}/"))
        return b"".join(self.get(part) or b"" for part in parts) if parts else None

    def put_if_absent(self, name: str, content: bytes) -> bool:
        """Put an object unless it exists. Return whether the stored content is this node's own.

        Contents are unique, so a put that was retried after a lost response is still recognized.
        """
        if self.get(name) is None:
            self.bucket.put(self.object_key(name), content, only_new=True)
            self._pause(SETTLE_S)
        return self.get(name) == content

    # ---- joining

    def join_attempt(self, who: SubmittedNode, init_from: str, job: str) -> int:
        """Join an attempt, wait until all nodes have, and return its number. Raises NodeMustNotStart, BucketError."""
        while True:
            attempt, is_ours = self._find_or_reserve_attempt(who)
            if is_ours and self.get(STOP) is not None:
                raise NodeMustNotStart(exit_codes.DONE, "the run was stopped")
            if not is_ours and not self._begin_attempt(attempt, who, init_from, job):
                continue
            # False if this node was restarted in this submission, and finds what it wrote earlier
            unique = f"attempt={attempt}\nnode={who.node}\ntime_ns={time.time_ns()}\n".encode()
            if self.put_if_absent(f"starts/{attempt:05}/node_{who.node:02}", unique):
                break
            self._begin_next_attempt(attempt, who, init_from, job)
        self._wait_for_nodes(attempt, who)
        return attempt

    def _find_or_reserve_attempt(self, submission: SubmittedNode) -> tuple[int, bool]:
        """Return the newest attempt and True if this submission began it, or else the next number and False."""
        attempts = self._attempt_owners()
        if not attempts:
            return 0, False
        last = max(attempts)
        if attempts[last] == submission.id:
            return last, True
        self._wait_for_live_nodes(last)
        return last + 1, False

    def newest_attempt(self) -> int | None:
        return max(self._attempt_owners(), default=None)

    def _attempt_owners(self) -> dict[int, str]:
        matches = [(name, OWNER.fullmatch(name)) for name in self.object_ages("starts/")]
        return {int(match[1]): (self.get(name) or b"").decode(errors="replace") for name, match in matches if match}

    def _begin_attempt(self, attempt: int, submission: SubmittedNode, init_from: str, job: str) -> bool:
        """Begin an attempt. Return False if another submission began it first."""
        if self.get("state/run") is None:
            keys = {"job": job, "created": int(time.time()), "init_from": init_from}
            self.put("state/run", "".join(f"{k}={v}\n" for k, v in keys.items()).encode())
        self.bucket.delete([self.object_key(STOP)] if attempt and self.get(STOP) is not None else [])
        return self.put_if_absent(f"starts/{attempt:05}/owner", submission.id.encode())

    def _begin_next_attempt(self, attempt: int, submission: SubmittedNode, init_from: str, job: str) -> None:
        """Begin the next attempt. Called if this node had already joined `attempt`."""
        for name in self.object_ages(f"exit/{attempt}/node_"):
            if (self.get(name) or b"").split(b"\n")[0] == b"0":
                node = name.rpartition("_")[2]
                why = f"node {node} has already finished, so this node cannot restart alone"
                raise NodeMustNotStart(exit_codes.CRASHED, why, "resume with jobctl submit --resume")
        began = sum(owner == submission.id for number, owner in self._attempt_owners().items() if number <= attempt)
        if began > submission.most:
            why = f"restart limit of {submission.most} reached"
            raise NodeMustNotStart(exit_codes.CRASHED, why, "raise lifecycle.max_requeues")
        again = f"reason=node {submission.node} was restarted"
        word = f"{exit_codes.PEER_LOST}\nnode={submission.node}\ntime_ns={time.time_ns()}\n{again}\n"
        self.put_if_absent(f"exit/{attempt}/first", word.encode())
        self._begin_attempt(attempt + 1, submission, init_from, job)

    def _wait_for_live_nodes(self, attempt: int) -> None:
        """Wait until no node of another submission's attempt can be alive. Raises NodeMustNotStart if one is."""
        began = time.monotonic()
        while ages := self._live_nodes(attempt):
            name, age = min(ages.items(), key=lambda item: item[1])
            if age + GRAIN_S < time.monotonic() - began:  # written after this node started waiting
                run_id, node_name = self.folder.rpartition("/")[2], name.rpartition("/")[2]
                why = f"run {run_id} is live: {node_name} of another job was active {age:.0f} s ago"
                hint = "stop that job first, or call jobctl submit without --resume to start a new run"
                raise NodeMustNotStart(exit_codes.CRASHED, why, hint)
            if time.monotonic() - began < LOOK_S:
                wait = f"waiting until it has been inactive for {SILENT_S:.0f} s"
                print(f"jobc: another job was using this run {age:.0f} s ago: {wait}", flush=True)
            self._pause(5 * LOOK_S)

    def _live_nodes(self, attempt: int) -> Mapping[str, float]:
        """Return an attempt's nodes that may be alive, as object name -> seconds since it was written."""
        starts = {name: age for name, age in self.object_ages(f"starts/{attempt:05}/").items() if age < SILENT_S}
        alive: dict[str, float] = {}
        spoken = set()
        for name, age in self.object_ages("state/node_").items():
            keys = parse_small_file(self.get(name) or b"")[1]
            if keys.get("attempt") == str(attempt):
                spoken.add(name.rpartition("/")[2])
                if "ended" not in keys and age < SILENT_S:
                    alive[name] = age
        waiting = {name: age for name, age in starts.items() if name.rpartition("/")[2] not in {*spoken, "owner"}}
        return {**waiting, **alive}

    def _wait_for_nodes(self, attempt: int, submission: SubmittedNode) -> None:
        deadline, reported = time.monotonic() + submission.timeout_s, ""
        expected = [f"starts/{attempt:05}/node_{node:02}" for node in range(submission.nodes)]
        while True:
            present = self.object_ages(f"starts/{attempt:05}/")
            lacking = " ".join(str(node) for node, name in enumerate(expected) if name not in present)
            if not lacking:
                return
            if self.get(STOP) is not None:
                raise NodeMustNotStart(exit_codes.DONE, "the run was stopped")
            if (first := self.get(f"exit/{attempt}/first")) is not None:
                keys = parse_small_file(first)[1]
                raise NodeMustNotStart(exit_codes.PEER_LOST, f"node {keys.get('node')}: {keys.get('reason')}")
            if reported != lacking:
                reported = lacking
                print(f"jobc: node {submission.node} is ready, waiting for {lacking}", flush=True)
            if time.monotonic() > deadline:
                why = f"timeout: these nodes did not join within {submission.timeout_s:.0f} s: {lacking}"
                hint = "jobctl status prints what these nodes are waiting for"
                raise NodeMustNotStart(exit_codes.RENDEZVOUS_FAILED, why, hint)
            self._pause(LOOK_S)
