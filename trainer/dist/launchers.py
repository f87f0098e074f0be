"""Detect the launcher: torchrun's variables, or those of srun, mpirun and others. Standard library only.

In   what is set under torchrun's names, and the claims of other launchers, in torchrun's words
Out  torchrun's variables as far as they are known, and every contradiction, naming both sides

Launchers start launchers: srun starts torchrun once on each node, a batch job starts mpirun. The outer one then counts
agents, and what it says agrees with the inner one in its meaning; two that both count ranks must say the same.
Sources: srun(1) 22.05 to 25.05, OUTPUT ENVIRONMENT VARIABLES; mpirun(1) of Open MPI 4.1; Hydra, MPICH 4; SkyPilot 0.14.
Cray's PALS: ALCF User Guides, "PyTorch on Polaris" and "Using GPUs on Polaris" (argonne-lcf/user-guides 40eaa57).
"""

import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

PORTS = range(20000, 32000)  # below Linux's range for outgoing connections, as in rt/head_port.py
STEP_STRIDE = 7919  # a prime: two steps of a job differ, and seldom meet on a port of the next job's
INNERMOST_FIRST = ("mpirun", "mvapich", "PMI", "srun", "skypilot")
COUNTERS = ("RANK", "WORLD_SIZE")  # which of how many
WORDS = ("jobc", "torchrun", *INNERMOST_FIRST)  # of JOBC_LAUNCHER
HINT = "unset leftover variables, or select a launcher with JOBC_LAUNCHER=torchrun or =srun"


@dataclass(frozen=True)
class LauncherVariables:
    """Claim of one launcher. names, values: torchrun's name -> its own name, and the value, if set.

    counters: its own names for RANK and WORLD_SIZE, set or not; gpus: of a node
    """

    launcher: str
    names: Mapping[str, str]
    values: Mapping[str, Any]
    counters: tuple[str, str]
    gpus: int = 0

    @property
    def counts(self) -> bool:
        """Return whether the claim numbers processes. A batch script has SLURM_PROCID but is not a task."""
        return all(self.values.get(name) is not None for name in COUNTERS)

    @property
    def is_half(self) -> bool:
        """Slurm sets some of its variables in a batch script too, SkyPilot on its machines; the others all or none."""
        return self.launcher not in ("srun", "skypilot") and any(name in self.names for name in COUNTERS)

    @property
    def text(self) -> str:
        return " ".join(f"{self.names[name]}={self.values[name]}" for name in COUNTERS)


def reconcile_variables(
    own: Mapping[str, Any], claims: Sequence[LauncherVariables], trusted: str | None, below_agent: bool
) -> tuple[dict[str, Any], list[str], str]:
    """(torchrun's variables, contradictions, who said so, for a message).

    own:         what is set under torchrun's names
    trusted:     JOBC_LAUNCHER, one of WORDS: only that one counts; jobc and torchrun set torchrun's names
    below_agent: torchrun started this process, or one that started it
    """
    if trusted is not None:
        if silence := _silence(trusted, own, claims):
            return dict(own), [silence], ", ".join(own)
        claims = [claim for claim in claims if claim.launcher == trusted]
        own = {name: value for name, value in own.items() if name.startswith("MASTER_") or not claims}
    counting = [
        _complete(claim) for claim in sorted(claims, key=lambda c: INNERMOST_FIRST.index(c.launcher)) if claim.counts
    ]
    if own.get("RANK") is not None and own.get("WORLD_SIZE") is not None:
        declared = f"RANK={own['RANK']} WORLD_SIZE={own['WORLD_SIZE']} are set"
        others = [c for c in counting if not (_same(own, c) or _counts_agents(own, c, below_agent))]
        wrong = [f"{declared}, but {claim.launcher} says {claim.text}" for claim in others]
        return _filled(own, [claim for claim in counting if _same(own, claim)]), wrong, ", ".join(own)
    if not counting:
        half = [claim for claim in claims if claim.is_half]
        return dict(own), [f"{c.launcher} set {', '.join(c.names.values())} only" for c in half], ", ".join(own)
    inner, *outer = counting
    others = [claim for claim in outer if not (_same(inner.values, claim) or _counts_nodes(inner, claim))]
    wrong = [f"{inner.launcher} says {inner.text}, but {claim.launcher} says {claim.text}" for claim in others]
    wrong += [
        f"{name}={own[name]} is set, but {inner.launcher} says {inner.names[name]}={value}"
        for name, value in inner.values.items()
        if name in inner.names and not name.startswith("MASTER_") and own.get(name, value) != value
    ]
    if inner.launcher == "skypilot" and inner.gpus > 1:
        wrong.append(f"SkyPilot starts one process per node, which has {inner.gpus} GPUs: use torchrun in `run`")
    alike = [claim for claim in outer if _same(inner.values, claim)]
    return _filled(own, [inner, *alike]), wrong, ", ".join(inner.names.values())


def _silence(trusted: str, environment: Mapping[str, Any], claims: Sequence[LauncherVariables]) -> str:
    """Return what the trusted launcher did not set, or "": assuming world size 1 would be wrong on every rank.

    A shell in a job of jobc has no launcher and is one process, unless another launcher counts several.
    """
    claim = next((claim for claim in claims if claim.launcher == trusted), None)
    names, values = (claim.counters, claim.values) if claim else (COUNTERS, environment)
    present = [name for key, name in zip(COUNTERS, names, strict=True) if key in values]
    if len(present) == len(names):
        return ""
    if trusted == "jobc" and not any(claim.counts and claim.values["WORLD_SIZE"] > 1 for claim in claims):
        return ""
    description = (
        f"{present[0]}, but no {(set(names) - set(present)).pop()}" if present else f"neither {' nor '.join(names)}"
    )
    return f"JOBC_LAUNCHER={trusted}, but found {description}"


def _same(values: Mapping[str, Any], claim: LauncherVariables) -> bool:
    """They mean the same ranks. Two agents are not two ranks of one node, which have the same numbers."""
    sizes = [mapping.get("LOCAL_WORLD_SIZE") for mapping in (values, claim.values)]
    alike = sizes[0] == sizes[1] or None in sizes
    return alike and all(values[name] == claim.values[name] for name in COUNTERS)


def _counts_agents(environment: Mapping[str, Any], claim: LauncherVariables, below_agent: bool) -> bool:
    """Return whether tasks are agents, as in `srun torchrun`: each became LOCAL_WORLD_SIZE ranks."""
    local_size = environment.get("LOCAL_WORLD_SIZE") or 0
    in_order = environment.get("GROUP_RANK") == claim.values["RANK"]
    return bool(environment["WORLD_SIZE"] == claim.values["WORLD_SIZE"] * local_size and (below_agent or in_order))


def _counts_nodes(inner: LauncherVariables, outer: LauncherVariables) -> bool:
    """Return whether tasks are nodes, as when mpirun starts its daemons through srun in a batch job."""
    return bool(
        outer.values.get("LOCAL_WORLD_SIZE", 1) == 1 and outer.values["WORLD_SIZE"] <= inner.values["WORLD_SIZE"]
    )


def _filled(environment: Mapping[str, Any], claims: Sequence[LauncherVariables]) -> dict[str, Any]:
    """Fill missing values from the other claims, in order."""
    filled = dict(environment)
    for claim in claims:
        for name, value in claim.values.items():
            filled.setdefault(name, value)
    return filled


def _complete(claim: LauncherVariables) -> LauncherVariables:
    """A claim with what follows from it: the node, and with some launchers the place where the ranks meet."""
    values = {name: value for name, value in claim.values.items() if value is not None}
    gpus = 0
    if claim.launcher == "srun":
        step_id = values.pop("SLURM_STEP_ID", 0)  # all tasks of a step have the same: srun(1)
        follows: dict[str, Callable[[Any], Any]] = {
            "LOCAL_WORLD_SIZE": lambda text: tasks_of_node(text, values.get("GROUP_RANK", 0)),
            "MASTER_ADDR": first_host,
            "MASTER_PORT": lambda job_id: PORTS[(job_id + STEP_STRIDE * step_id) % len(PORTS)],
        }
        values |= {name: follows[name](value) for name, value in values.items() if name in follows}
    elif claim.launcher == "skypilot":
        gpus = values.get("LOCAL_WORLD_SIZE", 0)
        values |= {"LOCAL_RANK": 0, "LOCAL_WORLD_SIZE": 1, "GROUP_RANK": values["RANK"]}
        follows = {
            "MASTER_ADDR": lambda addresses: next(iter(addresses.split()), None),
            "MASTER_PORT": lambda task_id: PORTS[zlib.crc32(task_id.encode()) % len(PORTS)],
        }
        values |= {name: follows[name](value) for name, value in values.items() if name in follows}
    elif "LOCAL_WORLD_SIZE" in values:  # ranks fill one node after the other, unless somebody mapped them otherwise
        values["GROUP_RANK"] = values["RANK"] // values["LOCAL_WORLD_SIZE"]
    return replace(claim, values={name: value for name, value in values.items() if value is not None}, gpus=gpus)


def tasks_of_node(text: str, node: int) -> int:
    """2(x3),1 -> 2 for the nodes 0 to 2, and 1 for node 3; 0 when the text does not say."""
    for part in text.split(","):
        number, _, times = part.rstrip(")").partition("(x")
        if not number.isdecimal() or not (times or "1").isdecimal():
            break
        if node < int(times or 1):
            return int(number)
        node -= int(times or 1)
    return 0


def first_host(text: str) -> str:
    """node[01-04,7],b -> node01; the brackets of a name may be several."""
    while match := re.match(r"([^],[]*)\[([^],-]+)[^]]*\](.*)$", text):
        text = "".join(match.groups())
    return text.split(",")[0]
