"""Watch live runs until they end, and describe them for `status`: possible hangs, the age of rank 0's last output and,
if it reports no steps, how far its start has progressed. Also explain why a run may not be removed yet.

In:  an engine, and the untrusted state files of the nodes and of rank 0, from which only numbers are used.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from ..run_folder.run import QUIET_S, NodeState, Run, format_utc
from ..system.failure import Failure
from ..system.processes import identify_machine
from ..system.text import describe_ranks
from ..system.values import number_or_none, read_keys

if TYPE_CHECKING:
    from .engine import Engine, State

MOST_RUNS = 20  # how many of the newest runs live_run_ids() checks
LONG_SILENT_S = 86400  # after this time, the supervisor counts as dead; until then, it may only have lost its storage


def notes_on_live_run(run: Run, sees_ranks: bool) -> Iterator[str]:
    """Yield the lines. sees_ranks: ranks write state files to this folder, so a rank without one has not started"""
    nodes = [node for node in run.nodes() if node.attempt == run.attempt]
    keys = read_keys(run.path / "state/rank_00")
    keys = keys if number_or_none(keys.get("attempt", "")) == run.attempt else {}
    if nodes and run.progress(0) is None:
        yield from _describe_rank_0_start(keys, sees_ranks)
    has_log = sees_ranks and "first_output" in keys and any(not node.number and node.ended is None for node in nodes)
    silent_s = run.silent_s(run.path / "logs/rank_00.log") if has_log else None
    if silent_s is not None and silent_s > QUIET_S:
        yield f"last output of rank 0: {silent_s:.0f} s ago"
    yield from _hang_lines(nodes)


def _describe_rank_0_start(keys: Mapping[str, str], sees_ranks: bool) -> Iterator[str]:
    """Yield when rank 0 started and when it first printed, as text. The program's own rendezvous cannot be observed.

    keys: rank 0's state file, or {} if it has not started in this attempt
    """
    began, first_output = (number_or_none(keys.get(key, "")) for key in ("began", "first_output"))
    if began is None:
        if sees_ranks:
            yield "rank 0 has not started: its launcher may be waiting for other nodes"
    elif first_output is None:
        yield f"rank 0 started at {format_utc(began)}; no output yet"
    else:
        yield f"rank 0 started at {format_utc(began)}; first output {max(0, first_output - began)} s later"


def _hang_lines(nodes: list[NodeState]) -> Iterator[str]:
    """Yield a line about ranks that may be hung if all running ranks are idle: one alone may be waiting for others."""
    live = [node for node in nodes if node.ended is None]
    since = [node.idle_since for node in live if node.idle_since is not None]
    if not live or len(since) < len(live):
        return
    ranks = sorted(rank for node in live for rank in _parse_numbers(node.idle_ranks))
    left = sorted(rank for node in live for rank in _parse_numbers(node.left_ranks))
    line = f"{describe_ranks(ranks)} may be hung: no output and no CPU time since {format_utc(max(since))}"
    over = [node.number for node in nodes if node.ended is not None and node.exit == 0]
    if left:
        line += f"; possible cause: {describe_ranks(left)} exited with 0"
    elif over:
        line += f"; possible cause: node {over[0]} exited with 0"
    yield line


def _parse_numbers(text: str) -> list[int]:
    return [int(word) for word in re.findall(r"\b[0-9]{1,9}\b", text)]


def why_run_may_be_live(run: Run, state: State) -> str:
    """Return why a run may still be running, or "" only if all its nodes are known to have ended."""
    if state.name == "unknown":
        return state.reason or state.text
    statuses = [(node, run.status_of(node)) for node in run.nodes()]
    if state.is_live or any(status in ("up", "elsewhere") for _, status in statuses):
        return f"it is live{run.describe_remote_node()}"
    for node, status in statuses:
        if status == "silent" and not _is_long_silent(run, node):
            return (
                f"node {node.name} {node.describe_location()} has not reported that it ended, and may still be running"
            )
    if not any(node.attempt == run.attempt for node in run.nodes()) and not run.is_stopped:
        attempt = "" if run.attempt is None else run.attempt
        return f"attempt {attempt} is being started, or was never started"
    return ""


def _is_long_silent(run: Run, node: NodeState) -> bool:
    silent_s = run.silent_s(node.path)
    return node.host == identify_machine()["host"] and silent_s is not None and silent_s > LONG_SILENT_S


class RunWatch:
    """Watches one job's runs. engine, runs, states: as of the last query"""

    def __init__(self, engine: Engine, runs: Sequence[Run], is_patient: bool = False) -> None:
        """is_patient: whether to wait for an engine that has never responded"""
        self.engine, self.runs = engine, list(runs)
        self._has_answered, self._is_silent = is_patient, False
        self.states: list[State] = []

    def is_live(self) -> bool:
        return bool(self.live_runs())

    def live_runs(self) -> list[Run]:
        """Return the runs that are live. Raises Failure if the engine has never responded, unless is_patient."""
        self.engine, self.runs = self.engine.query_again(self.runs)
        self.states = [self.engine.state(run) for run in self.runs]
        silence = next((state.reason or state.text for state in self.states if state.name == "unknown"), "")
        if silence and not self._has_answered:
            raise Failure(silence, "try again when the engine responds")
        if silence and not self._is_silent:
            print(f"{silence}; asking again", file=sys.stderr, flush=True)
        self._has_answered, self._is_silent = True, bool(silence)
        return [run for run, state in zip(self.runs, self.states, strict=True) if state.is_live]

    def wait_until_ended(self, longest_s: float, pause_s: float) -> list[Run]:
        """Wait at most longest_s until all runs have ended. Return the runs that are still live."""
        until = time.monotonic() + longest_s
        while True:
            live = self.live_runs()
            if not live or time.monotonic() >= until:
                return live
            time.sleep(pause_s)


def live_run_ids(engine: Engine, runs: list[Run]) -> list[str]:
    """Return the IDs of this user's live runs among the 20 newest. Hosts are queried only about the newest run."""
    newest = [run for run in runs[:MOST_RUNS] if run.is_mine]
    engine.fetch("state", newest[:1])
    engine.query_runs(newest)
    return [run.id for run in newest if engine.state(run).name in ("queued", "starting", "live", "stopping")]
