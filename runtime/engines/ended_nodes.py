"""Decide whether all of a run's nodes have certainly ended, so that its folder can be removed; if in doubt, say no.

In   the nodes' state files (untrusted), and the state that the engine reports
Out  the reason why the run may still be running, in words
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ..run_folder.run import Node, Run, machine

if TYPE_CHECKING:
    from .engine import State

LONG_SILENT_S = 86400  # after this, the supervisor is dead; earlier, it may only have lost the storage


def why_it_may_run(run: Run, state: State) -> str:
    """Return why a run may still be running; "" if all its nodes have ended."""
    if state.name == "unknown":
        return state.reason or state.text
    statuses = [(node, node.status(machine(), partial(run.silent_s, node))) for node in run.nodes()]
    if state.is_live or any(status in ("up", "elsewhere") for _, status in statuses):
        away = next((node for node, status in statuses if status == "elsewhere"), None)
        return f"it is live{f', node {away.name} {away.where()}' if away else ''}"
    for node, status in statuses:
        if status == "silent" and not _is_long_silent(run, node):
            return f"node {node.name} {node.where()} has not recorded its end, and may still be running there"
    if not any(node.attempt == run.attempt for node in run.nodes()) and not run.is_stopped:
        attempt = "" if run.attempt is None else run.attempt
        return f"attempt {attempt} is being started, or was never started"
    return ""


def _is_long_silent(run: Run, node: Node) -> bool:
    silent_s = run.silent_s(node)
    return node.host == machine()["host"] and silent_s is not None and silent_s > LONG_SILENT_S
