"""Lines in `status` about a live run: how far rank 0 has started if it reports no steps, and possible hangs.

In   the state files of the nodes and of rank 0. They are untrusted, so only their numbers are used
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..run_folder.run import Node, Run, utc
from ..system.text import named_ranks
from ..system.values import number, read_keys


def live_notes(run: Run, sees_ranks: bool) -> Iterator[str]:
    """Yield the lines. sees_ranks: ranks write state files to this folder, so a rank without one has not started"""
    nodes = [node for node in run.nodes() if node.attempt == run.attempt]
    if nodes and run.progress(0) is None:
        yield from _start(run, sees_ranks)
    yield from _hang(nodes)


def _start(run: Run, sees_ranks: bool) -> Iterator[str]:
    """Yield when rank 0 started and when it first printed. The rendezvous inside the program cannot be observed."""
    keys = read_keys(run.path / "state/rank_00")
    began = number(keys.get("began", "")) if number(keys.get("attempt", "")) == run.attempt else None
    if began is None:
        if sees_ranks:
            yield "rank 0 has not started: its launcher may be waiting for other nodes"
        return
    first_output = number(keys.get("first_output", ""))
    if first_output is None:
        yield f"rank 0 started at {utc(began)}; no output yet"
    else:
        yield f"rank 0 started at {utc(began)}; first output {max(0, first_output - began)} s later"


def _hang(nodes: list[Node]) -> Iterator[str]:
    """Yield which ranks may hang. All running ranks must be idle, as one may be waiting for another node's ranks."""
    live = [node for node in nodes if node.ended is None]
    since = [node.idle_since for node in live if node.idle_since is not None]
    if not live or len(since) < len(live):
        return
    ranks = sorted(rank for node in live for rank in _numbers(node.idle_ranks))
    left = sorted(rank for node in live for rank in _numbers(node.left_ranks))
    line = f"{named_ranks(ranks)} may hang: no output and no CPU time since {utc(max(since))}"
    over = [node.number for node in nodes if node.ended is not None and node.exit == 0]
    if left:
        line += f"; {named_ranks(left)} exited with 0: the others may be waiting for it"
    elif over:
        line += f"; node {over[0]} exited with 0: the others may be waiting for it"
    yield line


def _numbers(text: str) -> list[int]:
    return [int(word) for word in re.findall(r"\b[0-9]{1,9}\b", text)]
