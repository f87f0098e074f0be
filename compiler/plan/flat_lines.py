"""Write nested data as `key = value` lines, one per leaf, for .jobc/job.json and `jobc diff`. Values are in JSON.

Names end in the unit: `grace_s`, `mem_bytes`.
"""

import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ...runtime.system.untrusted_files import parse_json
from ..spec.host_list import fold_hostlist
from ..spec.type_hints import join_key
from .launch_plan import LaunchPlan
from .runtime_vars import Concat, RuntimeVar

_encode = json.JSONEncoder(ensure_ascii=False).encode  # json.dumps() with this option creates an encoder in each call
_SCALARS = (str, int, float, bool, type(None))


def to_json(value: Any) -> str:
    """Return a value as JSON on one line. None, bool and int are handled here, because `_encode` is slow for them."""
    if value is None:
        return "null"
    if type(value) is bool:
        return "true" if value else "false"
    return str(value) if type(value) is int else _encode(value)


def to_json_types(value: Any) -> Any:
    """Return a value as JSON types. A runtime variable becomes `$JOBC_NODE_RANK`."""
    if type(value) in _SCALARS:  # checked first, because there may be 10,000 hosts
        return value
    if isinstance(value, RuntimeVar):
        return f"${value.env_name}"
    if isinstance(value, Concat):
        return "".join(to_json_types(part) for part in value)
    if isinstance(value, Mapping):
        return {str(key): to_json_types(inner) for key, inner in value.items()}
    if isinstance(value, (tuple, list)):
        return [to_json_types(item) for item in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_json_types(getattr(value, field.name)) for field in dataclasses.fields(value)}
    return value


def flatten_to_leaves(
    value: Any, key: str, show: Callable[[str, Any], Any] = lambda _, leaf: to_json_types(leaf)
) -> Iterator[tuple[str, Any]]:
    """Yield (dotted key, leaf) for every leaf in nested dataclasses and mappings. Lists and empty mappings are leaves.

    show: converts (key, leaf) to a JSON value.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from flatten_to_leaves(getattr(value, field.name), join_key(key, field.name.rstrip("_")), show)
    elif isinstance(value, Mapping) and value:
        for name, inner in value.items():
            yield from flatten_to_leaves(inner, join_key(key, name), show)
    else:
        yield key, show(key, value)


def to_flat_lines(values: Mapping[str, Any]) -> list[str]:
    return [f"{key} = {to_json(value)}" for key, value in sorted(values.items())]


def parse_flat_lines(lines: Sequence[str]) -> dict[str, Any]:
    """Return key -> value. Raises Unreadable for text that does not consist of `key = value` lines."""
    pairs = (line.partition(" = ") for line in lines)
    return {key: parse_json("", value) for key, _, value in pairs}


def plan_lines(plan: LaunchPlan, backend: str, options: Any) -> list[str]:
    """Return the plan as sorted lines, without train.json if the job does not use the bundled trainer.

    options: the backend's options, which get the prefix `backend`.
    """
    leaves = {
        **dict(flatten_to_leaves(plan if plan.uses_trainer else dataclasses.replace(plan, train={}), "")),
        **dict(flatten_to_leaves(options, "backend")),
        "backend.name": backend,
        "topology.world_size": plan.topology.world_size,
        "resources.hosts": fold_hostlist(plan.resources.hosts),
    }
    return to_flat_lines(leaves)
