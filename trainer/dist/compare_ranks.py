"""Collect each rank's host, versions and hardware, once, after the rendezvous.

Later messages name ranks together with their hosts. Differing versions and hardware trigger a warning because
different kernels round differently, and a slow node slows down all ranks.
"""

import json
import os
import platform
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import torch

from ..config.schema import TrainConfig
from ..lifecycle.errors import list_names
from .hang_watch import HangWatchdog
from .process_group import RankGroup, format_ranks

BYTES = 768  # size of one rank's facts; rank_facts() truncates its values to fit
CPU_MODEL_PATTERN = r"^model name\s*:\s*(.*)$"
DRIVER_VERSION_PATTERN = r"Kernel Module.*?\s(\d+\.[\d.]+)\s"


def compare_ranks_and_watch(group: RankGroup, config: TrainConfig) -> HangWatchdog:
    """Warn about ranks with different software or hardware, and return the hang watchdog."""
    facts, parallel = gather_rank_facts(group), config.parallel
    if group.is_first:
        if lines := fact_differences(facts):
            print("\n  ".join(["warning: the ranks have different software or hardware", *lines]), flush=True)
        if parallel.kind == "hsdp" and (line := describe_scattered_copy(facts, parallel.shards)):
            hint = "place consecutive ranks on the same node: srun --distribution=block, mpirun --map-by slot"
            print(f"warning: hsdp: {line}: every layer sends its weights between nodes\n  {hint}", flush=True)
    names = [f"rank {rank} on {rank_facts['host']}" for rank, rank_facts in enumerate(facts)]
    return HangWatchdog(group.phases, group.rank, names, config.process_group.init_timeout_s, group.board)


def rank_facts(device: torch.device) -> dict[str, str]:
    """Return the facts about this rank. Each value is ASCII text of at most 60 characters."""
    is_gpu = device.type == "cuda"
    facts = {
        "host": os.uname().nodename,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "CPU capability": torch.backends.cpu.get_cpu_capability(),  # determines torch's kernels
        "CPU": _match_in_file("/proc/cpuinfo", CPU_MODEL_PATTERN),  # determines the kernels of oneDNN and MKL
        "GPU": torch.cuda.get_device_name(device) if is_gpu else "",
        "GPU driver": _match_in_file("/proc/driver/nvidia/version", DRIVER_VERSION_PATTERN) if is_gpu else "",
    }
    return {name: value.encode("ascii", "replace").decode()[:60] for name, value in facts.items() if value}


def gather_rank_facts(group: RankGroup) -> list[dict[str, str]]:
    facts = json.dumps(rank_facts(group.device)).encode()
    assert len(facts) <= BYTES
    return [json.loads(content) for content in group.all_gather_bytes(facts.ljust(BYTES))]


def fact_differences(facts_by_rank: Sequence[dict[str, str]]) -> list[str]:
    """Return a line for each fact that differs between ranks: `torch: 2.13.0 on ranks 0-3; 2.12.1 on ranks 4-7`."""
    lines = []
    for name in dict.fromkeys(name for facts in facts_by_rank for name in facts if name != "host"):
        values = [facts.get(name, "none") for facts in facts_by_rank]
        if len(set(values)) > 1:
            groups = [[rank for rank, value in enumerate(values) if value == this] for this in dict.fromkeys(values)]
            lines.append(f"{name}: " + "; ".join(f"{values[ranks[0]]} on {format_ranks(ranks)}" for ranks in groups))
    return lines


def describe_scattered_copy(facts_by_rank: Sequence[dict[str, str]], shards: int) -> str:
    """Return a line about a copy of the model, on `shards` consecutive ranks, on more hosts than necessary; or ""."""
    hosts = [facts["host"] for facts in facts_by_rank]
    fewest = -(-shards // max(Counter(hosts).values()))
    for first in range(0, len(hosts), shards):
        machines = list(dict.fromkeys(hosts[first : first + shards]))
        if len(machines) > fewest:
            return f"{format_ranks(range(first, first + shards))} share a copy of the model, on {list_names(machines)}"
    return ""


def _match_in_file(path: str, pattern: str) -> str:
    """Return the first group of the match, or "" if there is no match or the file is unreadable."""
    try:
        match = re.search(pattern, Path(path).read_text(errors="replace"), re.MULTILINE)
    except OSError:
        return ""
    return match[1].strip() if match else ""
