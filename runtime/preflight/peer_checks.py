"""Check, on one of several nodes, whether the nodes can reach each other before a run. Part of node_checks.py."""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

from ..network import interfaces, network
from ..network.reach import REFUSED, why_port_is_unreachable
from ..node.node_settings import NodeSettings
from ..system.failure import Failure
from . import network_test
from .node_checks import CheckResult, SameOnAllNodes, check_port, checks_of_this_node

LEAST_MEMLOCK_MIB = 1024  # RDMA pins every connection's buffers
HEAD_S = 5.0  # timeout for a response from node 0
MOST_CLOCK_S = 2.0  # several nodes' logs are merged by time


def check_with_peers(settings: NodeSettings, command: Sequence[str]) -> Iterator[CheckResult | SameOnAllNodes]:
    rank, head, port = (
        int(os.environ["JOBC_NODE_RANK"]),
        os.environ["JOBC_HEAD_ADDR"],
        int(os.environ["JOBC_HEAD_PORT"]),
    )
    folder = Path(os.environ["JOBC_RUN_DIR"]) / "preflight"
    mine = chain(check_network(settings, command, head, rank), checks_of_this_node(settings, command))
    if not command or settings.storage != "shared":  # no folder for the network test; jobctl smoke tests the network
        yield check_head(head) if rank else check_port(port)
        yield from mine
    elif rank == 0:
        port_check = check_port(port)
        yield port_check
        listening = network_test.serve_network_test(folder, settings.nodes, port if port_check.good else 0)
        next(listening)
        yield from mine
        for _ in listening:
            pass
    else:
        try:
            yield from check_connection_to_node_0(folder, rank, head)
            yield from mine
        finally:
            with contextlib.suppress(OSError):  # already reported
                network_test.report_network_test_done(folder, rank)


def check_connection_to_node_0(folder: Path, rank: int, head: str) -> Iterator[CheckResult]:
    """Check with node 0: shared storage, connections in both directions, and the clock."""
    try:
        result = network_test.run_network_test(folder, rank, head)
    except OSError as error:
        hint = "the run folder must be on storage that every node can write to"
        yield CheckResult(False, "storage", f"run folder {folder.parent}: {error.strerror}", hint)
        return
    if result.storage:
        yield CheckResult(False, "storage", result.storage, "set storage.root to a folder that all nodes share")
        return
    yield CheckResult(True, "storage", f"run folder shared with node 0: {folder.parents[1]}")
    hint = "open TCP between the nodes in both directions; rendezvous.port sets a fixed rendezvous port"
    to_head = f"unreachable: {result.to_head}" if result.to_head else "reachable"
    yield CheckResult(not result.to_head, "to_head", f"node 0, {head}, is {to_head}", hint)
    from_head = f"unreachable from node 0: {result.from_head}" if result.from_head else "reachable from node 0"
    yield CheckResult(not result.from_head, "from_head", from_head, hint)
    if result.clock_s is not None:
        yield check_clock(*result.clock_s)


def check_head(head: str) -> CheckResult:
    """Check that node 0 answers. Nothing is listening there yet, so a refused connection counts as a response."""
    why = why_port_is_unreachable(head, 1, HEAD_S)
    if why in (None, REFUSED):
        return CheckResult(True, "to_head", f"node 0, {head}, responds")
    hint = "check firewalls and NetworkPolicies: all TCP ports must be open between the nodes"
    return CheckResult(False, "to_head", f"node 0, {head}, does not respond: {why}", hint)


def check_clock(ahead_s: float, unsure_s: float) -> CheckResult:
    """Check this node's clock. ahead_s: node 0's clock minus this one's; unsure_s: its error. Both in seconds."""
    good = abs(ahead_s) <= MOST_CLOCK_S + unsure_s
    direction = "behind" if ahead_s > 0 else "ahead of"
    position = f"within {MOST_CLOCK_S:g} s of" if good else f"{abs(ahead_s):.1f} s {direction}"
    text = f"clock {position} node 0's"
    return CheckResult(
        good, "clock", text, "check with `timedatectl` or `chronyc tracking` that this clock is synchronized"
    )


def check_network(settings: NodeSettings, command: Sequence[str], head: str, rank: int) -> Iterator[CheckResult]:
    """Check the interface, the profile's fabric, and the memory that RDMA may pin."""
    uses_gpus, profile = bool(command) and settings.gpus > 0, settings.network_profile
    try:
        chosen = network.choose_interface(settings.interface, head, rank == 0)
        names = sorted(set(interfaces.interface_by_address().values()) & set(chosen.split(",")))
        yield CheckResult(True, "interface", f"interface to the other nodes: {', '.join(names)}")
        if uses_gpus:
            network.fabric_variables(profile, chosen)
            if profile != "auto":
                yield CheckResult(True, "fabric", f"network={profile}")
    except Failure as lacking:
        yield CheckResult(False, "network", lacking.title, lacking.hint)
    if uses_gpus and (profile in network.RDMA or Path("/dev/infiniband").is_dir()):  # NCCL finds it on its own
        yield check_memlock(resource.getrlimit(resource.RLIMIT_MEMLOCK)[0])


def check_memlock(limit: int) -> CheckResult:
    """Check the limit on locked memory. limit: in bytes, or -1 if unlimited"""
    good = limit == resource.RLIM_INFINITY or limit >= LEAST_MEMLOCK_MIB * 2**20
    text = "unlimited" if limit == resource.RLIM_INFINITY else f"{limit // 1024} KiB"
    hint = "raise memlock in limits.conf; Slurm: LimitMEMLOCK=infinity in slurmd's unit; Docker: --ulimit memlock=-1"
    return CheckResult(good, "memlock", f"max locked memory (ulimit -l): {text}", hint)
