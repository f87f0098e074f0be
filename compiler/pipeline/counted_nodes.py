"""Count the nodes from hosts on the command line: `hosts=[a,b,c]` means three nodes unless `nodes` is typed as well.

In:  the job's typed values and the overrides that they were composed from.
Out: an override that sets `nodes`. The job is composed again with it, so that every `${nodes}` is updated.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ..checks.capabilities import supported_values
from ..checks.unused_keys import is_typed
from ..frontend.overrides import Override, override_for_key
from ..plan.derive import usable_hosts
from .resolve import TypedConfig


def node_count_override(typed: TypedConfig, overrides: Iterable[Override]) -> Override | None:
    """Return `nodes=N` for the N usable hosts on the command line, None if the number of nodes does not change.

    Hosts are not counted for backends that ignore `hosts`, such as local. The override has the position of `hosts`.
    """
    if not is_typed(typed.values, "hosts") or is_typed(typed.values, "nodes"):
        return None
    count = len(usable_hosts(typed.spec, typed.spec.hosts or ()))
    if count in (0, typed.spec.nodes) or not supported_values(typed.backend, "resources.hosts"):
        return None
    hosts = next(override.typed for override in overrides if override.key == "hosts" and override.operator != "~")
    return replace(override_for_key("nodes", str(count)), typed=hosts)
