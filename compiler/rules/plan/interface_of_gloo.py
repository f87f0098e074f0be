"""JC3012: an interface that Gloo does not find: it takes names alone, where NCCL takes prefixes and exclusions.

Source torch/csrc/distributed/c10d/ProcessGroupGloo.cpp, 2.13: GLOO_SOCKET_IFNAME is split at commas, each a name;
       NCCL user guide, NCCL_SOCKET_IFNAME: `^` excludes, `=` is exact
"""

from __future__ import annotations

from collections.abc import Iterator

from ...diagnostics import Diagnostic
from ...plan import LaunchPlan
from ...spec import JobSpec

_GLOO, _ALL = (
    ("GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME"),
    ("GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"),
)


def check(spec: JobSpec, plan: LaunchPlan) -> Iterator[Diagnostic]:
    for name in _ALL:
        value = spec.env.get(name, "")
        if name in _GLOO and value.startswith(("^", "=")):
            because = f"only NCCL reads {value[0]} as a sign; Gloo looks for an interface of that whole name"
            yield _error(f"{name}={value} is no interface", because, name)
        elif plan.topology.nodes > 1 and value.lstrip("=") == "lo":
            because = "lo leads to the node itself, so the ranks of other nodes wait for nobody"
            yield _error(f"{name}={value} with {plan.topology.nodes} nodes", because, name)


def _error(title: str, because: str, name: str) -> Diagnostic:
    hint = f"~env.{name}, and each node finds the one that leads to node 0; or network.interface=eth0"
    return Diagnostic("JC3012", title, because, hint, key=f"env.{name}")
