"""A plan as `key = value` lines: what a job means, leaf by leaf, for `.jobc/plan.txt` and for `jobc diff`.

Units are in the names (`grace_s`, `mem_bytes`); a word known only at run time is `$JOBC_NODE_RANK`.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping
from typing import Any

from .convert import join
from .plan import LaunchPlan
from .values import fold_hostlist
from .words import Concat, RuntimeVar


def plan_text(plan: LaunchPlan, backend: str, options: Any) -> str:
    """Sorted lines; options: those of the backend, below `backend`."""
    leaves = {**dict(_leaves(plan, "")), **dict(_leaves(options, "backend")), "backend.name": backend}
    del leaves["topology.groups"]
    for number, group in enumerate(plan.topology.groups):
        leaves |= dict(_leaves(group, "topology" if len(plan.topology.groups) == 1 else f"topology.groups.{number}"))
    leaves |= {
        "topology.world_size": plan.topology.world_size,
        "resources.hosts": fold_hostlist(plan.resources.hosts),
    }
    return "".join(f"{key} = {json.dumps(value, ensure_ascii=False)}\n" for key, value in sorted(leaves.items()))


def read_pairs(text: str) -> dict[str, Any]:
    """The values by key of such lines, and of .jobc/identity.txt and free.txt. Raises ValueError for others."""
    pairs = (line.partition(" = ") for line in text.splitlines())
    return {key: json.loads(value) for key, _, value in pairs}


def _leaves(value: Any, key: str) -> Iterator[tuple[str, Any]]:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from _leaves(getattr(value, field.name), join(key, field.name.rstrip("_")))
    elif isinstance(value, Mapping) and value:
        for name, inner in value.items():
            yield from _leaves(inner, join(key, name))
    else:
        yield key, _plain(value)


def _plain(value: Any) -> Any:
    if isinstance(value, RuntimeVar):
        return f"${value.variable}"
    if isinstance(value, Concat):
        return "".join(_plain(part) for part in value)
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    return value
