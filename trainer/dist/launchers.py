"""Detect the launcher from torchrun's variables, or those of srun, mpirun and others. Standard library only.

Input:  torchrun's variables, and the variables of other launchers, keyed by torchrun's names.
Output: torchrun's variables, as far as they are known, and every contradiction, naming both sides.

Launchers can be nested: srun starts torchrun once on each node, or a batch job starts mpirun. The outer launcher then
counts agents, and its numbers must match the agents of the inner launcher. Two launchers that both count ranks must
agree.
Sources: srun(1) 22.05 to 25.05, OUTPUT ENVIRONMENT VARIABLES; mpirun(1) of Open MPI 4.1; Hydra, MPICH 4; SkyPilot 0.14.
Cray's PALS: ALCF User Guides, "PyTorch on Polaris" and "Using GPUs on Polaris" (argonne-lcf/user-guides 40eaa57).
"""

import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...runtime.system.frozen_dataclass import dataclass

PORTS = range(20000, 32000)  # below Linux's ephemeral ports, as in runtime/network/head_port.py
STEP_STRIDE = 7919  # a prime, so that the steps of a job get different ports, which rarely collide with the next job's
INNERMOST_FIRST = ("mpirun", "mvapich", "PMI", "srun", "skypilot")
COUNTERS = ("RANK", "WORLD_SIZE")
WORDS = ("jobc", "torchrun", *INNERMOST_FIRST)  # valid values of JOBC_LAUNCHER
HINT = "unset leftover variables, or select a launcher with JOBC_LAUNCHER=torchrun or =srun"


@dataclass(frozen=True)
class LauncherVariables:
    """One launcher's claim: the variables that it has set.

    names:    torchrun's name -> the launcher's name.
    values:   torchrun's name -> value.
    counters: the launcher's names for RANK and WORLD_SIZE, whether they are set or not.
    gpus:     GPUs per node.
    """

    launcher: str
    names: Mapping[str, str]
    values: Mapping[str, Any]
    counters: tuple[str, str]
    gpus: int = 0

    @property
    def is_rank_numbered(self) -> bool:
        """Return whether the launcher numbered this process. A batch script has SLURM_PROCID but is not a task."""
        return all(self.values.get(name) is not None for name in COUNTERS)

    @property
    def format_counters(self) -> str:
        return " ".join(f"{self.names[name]}={self.values[name]}" for name in COUNTERS)


def reconcile_variables(
    environment: Mapping[str, Any], claims: Sequence[LauncherVariables], trusted: str | None, is_under_agent: bool
) -> tuple[dict[str, Any], list[str], str]:
    """Return torchrun's variables, the contradictions, and, for a message, the names of the source variables.

    environment:    the variables with torchrun's names that are set.
    trusted:        value of JOBC_LAUNCHER, one of WORDS. Other launchers are ignored. For jobc and torchrun, the
                    trusted variables are the ones with torchrun's names.
    is_under_agent: whether this process runs under torchrun.
    """
    if trusted is not None:
        if silence := _find_unset_counters(trusted, environment, claims):
            return dict(environment), [silence], ", ".join(environment)
        claims = [claim for claim in claims if claim.launcher == trusted]
        environment = {name: value for name, value in environment.items() if name.startswith("MASTER_") or not claims}
    counting = [
        _add_derived_values(claim)
        for claim in sorted(claims, key=lambda c: INNERMOST_FIRST.index(c.launcher))
        if claim.is_rank_numbered
    ]
    if environment.get("RANK") is not None and environment.get("WORLD_SIZE") is not None:
        declared = f"RANK={environment['RANK']} WORLD_SIZE={environment['WORLD_SIZE']} are set"
        same = [claim for claim in counting if _have_same_rank_numbers(environment, claim)]
        wrong = [
            f"{declared}, but {claim.launcher} sets {claim.format_counters}"
            for claim in counting
            if claim not in same and not _are_tasks_agents(environment, claim, is_under_agent)
        ]
        return _fill_missing_values(environment, same), wrong, ", ".join(environment)
    if not counting:
        # it is normal that Slurm and SkyPilot set only some variables
        partial = [
            claim for claim in claims if claim.launcher not in ("srun", "skypilot") and claim.names.keys() & {*COUNTERS}
        ]
        half = [f"{claim.launcher} set only {', '.join(claim.names.values())}" for claim in partial]
        return dict(environment), half, ", ".join(environment)
    inner, *outer = counting
    alike = [claim for claim in counting if _have_same_rank_numbers(inner.values, claim)]
    wrong = [
        f"{inner.launcher} sets {inner.format_counters}, but {claim.launcher} sets {claim.format_counters}"
        for claim in outer
        if claim not in alike and not _are_tasks_nodes(inner, claim)
    ]
    wrong += [
        f"{name}={environment[name]} is set, but {inner.launcher} sets {inner.names[name]}={value}"
        for name, value in inner.values.items()
        if name in inner.names and not name.startswith("MASTER_") and environment.get(name, value) != value
    ]
    if inner.gpus > 1:
        wrong.append(f"SkyPilot starts one process per node, which has {inner.gpus} GPUs: use torchrun in `run`")
    return _fill_missing_values(environment, alike), wrong, ", ".join(inner.names.values())


def _find_unset_counters(trusted: str, environment: Mapping[str, Any], claims: Sequence[LauncherVariables]) -> str:
    """Return which counters the trusted launcher has not set, or "". Without this check, every rank would train alone.

    A shell inside a jobc job has no launcher. It counts as one process unless another launcher counts several.
    """
    claim = next((claim for claim in claims if claim.launcher == trusted), None)
    names, values = (claim.counters, claim.values) if claim else (COUNTERS, environment)
    present = [name for key, name in zip(COUNTERS, names, strict=True) if key in values]
    if len(present) == len(names):
        return ""
    if trusted == "jobc" and not any(claim.is_rank_numbered and claim.values["WORLD_SIZE"] > 1 for claim in claims):
        return ""
    if not present:
        return f"JOBC_LAUNCHER={trusted}: neither {' nor '.join(names)} is set"
    return f"JOBC_LAUNCHER={trusted}: {present[0]} is set, but {(set(names) - set(present)).pop()} is not"


def _have_same_rank_numbers(values: Mapping[str, Any], claim: LauncherVariables) -> bool:
    """Return whether both number the same ranks. On one node, LOCAL_WORLD_SIZE distinguishes agents from ranks."""
    sizes = [mapping.get("LOCAL_WORLD_SIZE") for mapping in (values, claim.values)]
    alike = sizes[0] == sizes[1] or None in sizes
    return alike and all(values[name] == claim.values[name] for name in COUNTERS)


def _are_tasks_agents(environment: Mapping[str, Any], claim: LauncherVariables, is_under_agent: bool) -> bool:
    """Return whether the launcher's tasks are agents, as in `srun torchrun`, that started LOCAL_WORLD_SIZE ranks."""
    local_size = environment.get("LOCAL_WORLD_SIZE") or 0
    in_order = environment.get("GROUP_RANK") == claim.values["RANK"]
    return bool(environment["WORLD_SIZE"] == claim.values["WORLD_SIZE"] * local_size and (is_under_agent or in_order))


def _are_tasks_nodes(inner: LauncherVariables, outer: LauncherVariables) -> bool:
    """Return whether tasks of the outer launcher are nodes, as when mpirun in a batch job starts daemons with srun."""
    is_per_node = outer.values.get("LOCAL_WORLD_SIZE", 1) == 1
    return bool(is_per_node and outer.values["WORLD_SIZE"] <= inner.values["WORLD_SIZE"])


def _fill_missing_values(environment: Mapping[str, Any], claims: Sequence[LauncherVariables]) -> dict[str, Any]:
    """Fill in missing values from the claims; the first claim with a value wins."""
    mappings = (*(claim.values for claim in reversed(claims)), environment)
    return {name: value for mapping in mappings for name, value in mapping.items()}


def _add_derived_values(claim: LauncherVariables) -> LauncherVariables:
    """Add the values that can be derived: the node rank and, with some launchers, the rendezvous endpoint."""
    values = {name: value for name, value in claim.values.items() if value is not None}
    gpus, local_size = 0, values.get("LOCAL_WORLD_SIZE")
    hosts, port_source = values.get("MASTER_ADDR"), values.get("MASTER_PORT")
    if claim.launcher == "srun":
        step_id = values.pop("SLURM_STEP_ID", 0)  # the same for all tasks of a step: srun(1)
        if local_size is not None:
            values["LOCAL_WORLD_SIZE"] = node_task_count(local_size, values.get("GROUP_RANK", 0))
        if hosts is not None:
            values["MASTER_ADDR"] = first_listed_host(hosts)
        if port_source is not None:
            values["MASTER_PORT"] = PORTS[(port_source + STEP_STRIDE * step_id) % len(PORTS)]
    elif claim.launcher == "skypilot":
        gpus = local_size or 0
        values |= {"LOCAL_RANK": 0, "LOCAL_WORLD_SIZE": 1, "GROUP_RANK": values["RANK"]}
        if hosts is not None and not hosts.split():
            del values["MASTER_ADDR"]
        elif hosts is not None:
            values["MASTER_ADDR"] = hosts.split()[0]
        if port_source is not None:
            values["MASTER_PORT"] = PORTS[zlib.crc32(port_source.encode()) % len(PORTS)]
    elif local_size is not None:  # assumes the default mapping, in which ranks fill one node after another
        values["GROUP_RANK"] = values["RANK"] // local_size
    return replace(claim, values=values, gpus=gpus)


def node_task_count(text: str, node: int) -> int:
    """Parse SLURM_STEP_TASKS_PER_NODE: 2(x3),1 -> 2 on nodes 0 to 2, 1 on node 3, or 0 if it has no such node."""
    for part in text.split(","):
        number, _, times = part.rstrip(")").partition("(x")
        if not number.isdecimal() or not (times or "1").isdecimal():
            break
        if node < int(times or 1):
            return int(number)
        node -= int(times or 1)
    return 0


def first_listed_host(text: str) -> str:
    """Return the first host of a host list: node[01-04,7],b -> node01. A name may have several brackets."""
    while match := re.match(r"([^],[]*)\[([^],-]+)[^]]*\](.*)$", text):
        text = "".join(match.groups())
    return text.split(",")[0]
