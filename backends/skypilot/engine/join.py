"""Run one node of a job on SkyPilot: find its attempt, start launch.sh, and exit with the worst node's exit code.

Usage: jobctl join [train|smoke|preflight]   from `run` of task.sky.yaml; the default is JOBC_PAYLOAD
       jobctl join secret RUN NAME           save a secret for a shell on this node; its value is read from stdin
       jobctl join forget RUN                remove a run's saved secrets
In:    SKYPILOT_NODE_IPS, SKYPILOT_NODE_RANK, SKYPILOT_NUM_GPUS_PER_NODE, SKYPILOT_TASK_ID (the same after a recovery).
       jobctl submit sets JOBC_RUN_ID, JOBC_ATTEMPT and JOBC_FORK_OF, which are empty if the task was launched by hand,
       and JOBC_SUBMITTED if it was given values.
Out:   a last line on stdout, such as `jobc: node 0 exited with 75: …`, which jobctl status reads.
Exit:  this node's exit code. With shared storage or a bucket, node 0 exits with the worst code of all nodes, and the
       others exit with 0. SkyPilot kills all nodes as soon as one fails, and recovers a managed job if any node exits
       with 69 or 75.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NoReturn

from ....runtime.exit_codes import DONE, MEANING, PEER_LOST, PREEMPTED
from ....runtime.node.join_attempt import depot_command, report_start_failure
from ....runtime.node.node_failure import NodeFailure
from ....runtime.run_folder.run import Run
from ....runtime.run_folder.run_secrets import delete_run_secrets, save_secret
from ....runtime.system.failure import Failure, NodeMustNotStart, print_failure
from .node import SkypilotNode, has_ended

KILLED = 143  # exit code if SIGTERM arrives before the ranks are running. Not 75, which would recover a managed job
LOOK_S = 0.5  # interval at which to check whether the other nodes have ended
MARGIN_S = 20  # time that the other nodes have after the grace period to record their exit codes
SETTLE_S = 3  # time for SkyPilot's processes on the other nodes to end as well
LAST_FILES_S = 5  # time for the other nodes to write their last files to the bucket


class SigtermReceived(BaseException):
    """Raised when SIGTERM arrives while no ranks are running."""


def main(argv: list[str]) -> int:
    """Run the node, or save or remove secrets. Return the exit code."""
    payload = argv[0] if argv else os.environ.get("JOBC_PAYLOAD") or "train"
    if payload in ("secret", "forget"):
        return save_or_remove_secrets(Path(argv[1]), argv[2:])
    try:
        node = SkypilotNode(Path(sys.argv[0]).parent.resolve(), payload, os.environ)
    except NodeFailure as failure:
        return report_start_failure(failure, os.environ, payload)
    code, exit_code = run_node(node)
    print(f"jobc: node {node.rank} exited with {code}: {MEANING.get(code, 'unknown')}", flush=True)
    return exit_code


def save_or_remove_secrets(run: Path, names: list[str]) -> int:
    """Save the secret whose value is on stdin. If no name is given, remove the run's saved secrets."""
    try:
        for name in names:
            os.environ[name] = sys.stdin.read().rstrip("\n")
            save_secret(run, name)
        if not names:
            delete_run_secrets(run)
    except Failure as failure:
        print_failure(failure)
        return failure.code
    return DONE


def run_node(node: SkypilotNode) -> tuple[int, int]:
    """Run the node. Return how the node ended (on node 0: how the run ended), and the exit code of this process."""
    try:
        signal.signal(signal.SIGTERM, _raise_sigterm_received)
        attempt = node.join_attempt()
        code = run_launch_sh(node, attempt)
        return (
            agree_on_exit_codes(node, attempt, code)
            if node.payload == "train"
            else remove_run_of_passed_check(node, code)
        )
    except SigtermReceived:
        return PREEMPTED, KILLED
    except (NodeMustNotStart, NodeFailure) as error:
        code = report_start_failure(error, node.environ, node.payload)
        return code, code


def _raise_sigterm_received(*_: object) -> NoReturn:
    raise SigtermReceived


# ---- the ranks


def run_launch_sh(node: SkypilotNode, attempt: int) -> int:
    """Run the attempt's launch.sh until it ends. With a bucket, `jobctl depot run` runs it. Return its exit code."""
    words = ["bash", str(node.run / f"artifact/{attempt}/launch.sh"), str(node.rank), node.payload]
    if node.is_in_bucket:
        words = [*depot_command(node.run, "run"), "--", *words]
    code = run_and_forward_sigterm(words, node)
    is_lost = node.is_in_bucket and node.payload == "train" and code > 128
    if is_lost and not has_ended(Run(node.run, attempt), node.rank):
        lost = "work since the last checkpoint in the bucket is lost"  # its children were killed too
        raise NodeMustNotStart(PEER_LOST, f"node {node.rank}'s depot.py was killed: {lost}")
    return code


def run_and_forward_sigterm(words: list[str], node: SkypilotNode) -> int:
    """Run a program until it ends, and return its exit code, which is 128 + N after signal N.

    SIGTERM, which sky cancel or a preemption sends, is forwarded to the program. The program's stderr goes to stdout.
    """
    process: subprocess.Popen[bytes] | None = None
    is_pending = False

    def forward_sigterm(*_: object) -> None:
        nonlocal is_pending
        if process is None:
            is_pending = True
        else:
            with contextlib.suppress(ProcessLookupError):  # the program has already ended
                process.terminate()

    signal.signal(signal.SIGTERM, forward_sigterm)
    sys.stdout.flush()
    process = subprocess.Popen(words, env=node.environ, stderr=subprocess.STDOUT)
    if is_pending:
        process.terminate()
    code = process.wait()
    return code if code >= 0 else 128 - code


# ---- the end


def agree_on_exit_codes(node: SkypilotNode, attempt: int, code: int) -> tuple[int, int]:
    """Wait for the other nodes. Return how this node (on node 0: the run) ended, and the exit code of this process.

    code: exit code of launch.sh.
    """
    if node.storage == "node":
        if code != DONE and node.rank > 0:
            time.sleep(node.settings.grace_s)  # node 0 may be saving, which cannot be observed from here
        return code, code
    if node.settings.nodes == 1:
        return code, code
    code = worst_node_code(node, attempt, code)
    if node.rank == 0:
        if code != DONE:
            time.sleep(SETTLE_S)
        return code, code
    return code, DONE if has_ended(Run(node.run, attempt), 0) else code


def worst_node_code(node: SkypilotNode, attempt: int, code: int) -> int:
    """Wait until all nodes have recorded their exit codes. Return the worst one, or PEER_LOST if a node was lost.

    After a failure, the wait has a time limit. Nodes other than node 0 do not wait if they have finished.
    """
    nodes, uploads = node.settings.nodes, 2 if node.is_in_bucket else 1
    until = time.monotonic() + uploads * node.settings.grace_s + MARGIN_S
    while (node.rank == 0 if code == DONE else time.monotonic() < until) and node.unfinished_node_count(attempt) > 0:
        time.sleep(LOOK_S)
    if code == DONE and node.rank == 0 and node.storage == "shared":  # a node may still be starting its supervisor
        while _has_unseen_nodes(Run(node.run, attempt), nodes) and time.monotonic() < until:
            time.sleep(LOOK_S)
        while node.unfinished_node_count(attempt) > 0:
            time.sleep(LOOK_S)
    if code == DONE and node.rank > 0:
        return code
    run = Run(node.run, attempt)
    if code == DONE and run.ended_node_count() < nodes:
        code = PEER_LOST
    return run.worst_recorded_code(code, nodes)


def _has_unseen_nodes(run: Run, nodes: int) -> bool:
    """Return whether a node has recorded neither a state nor an exit code."""
    seen = {node.number for node in run.nodes()}
    return any(node not in seen and not has_ended(run, node) for node in range(nodes))


def remove_run_of_passed_check(node: SkypilotNode, code: int) -> tuple[int, int]:
    """Remove the run folder of a check that passed. Return two exit codes, the node's and this process's."""
    if code == DONE and node.rank == 0:
        if node.is_in_bucket:
            time.sleep(LAST_FILES_S)
            code = subprocess.run(depot_command(node.run, "remove"), env=node.environ, check=False).returncode
        shutil.rmtree(node.run, ignore_errors=True)
    return code, code
