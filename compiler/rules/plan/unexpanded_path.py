"""JC3002: `$SCRATCH/runs` or `~/runs` as one of the job's folders. Scripts quote it, so it is not expanded.

Exceptions: the folders of `caches` may contain `$UID` and `~/` (cache_folder in runtime/node/node_folders.py), and
SkyPilot's node disks are below `~/` (storage.root with storage.run=node, storage.scratch).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any, get_args

from ...diagnostics.diagnostic import Diagnostic, Severity
from ...plan.launch_plan import LaunchPlan
from ...spec.job_spec import JobSpec
from ...spec.type_hints import types_of_fields
from ...spec.value_types import MountTarget, Path

_SECTIONS = ("code", "python", "container", "mounts", "storage", "caches")  # estimate.run is read here, not on a node
_FOUND = re.compile(r"(?<!\\)(\$\{\w+\}|\$[A-Za-z_]\w*|\$\([a-z][^()]*\))|(`[a-z][^`]*`)|^(~[\w.-]*)(?:/|$)")


def check(spec: JobSpec, plan: LaunchPlan) -> Iterator[Diagnostic]:
    for key, path in [entry for name in _SECTIONS for entry in _paths(getattr(spec, name), name)]:
        match = _FOUND.search(_left_to_nodes(spec, key, path))
        if text := next(filter(None, match.groups()), "") if match else "":
            text += "/" * text.startswith("~")
            title = f"{key} contains {text}, which is not expanded"
            because = f"the scripts quote the path, so it would contain {text} literally"
            hint = "an absolute path"
            if key == "storage.root" and spec.storage.run != "object":
                hint += "; or set JOBC_RUN_ROOT in the shell that calls jobctl submit, which expands it"
            yield Diagnostic("JC3002", title, because, hint, key=key, severity=Severity.WARNING)


def _paths(value: Any, key: str) -> Iterator[tuple[str, str]]:
    """Yield each value of a path type and the source of each host mount, with its key."""
    if isinstance(value, tuple):
        for i, item in enumerate(value):
            yield from _paths(item, f"{key}.{i}")
    elif is_dataclass(value):
        cls: type = type(value)
        types = types_of_fields(cls)
        for field in fields(value):
            hint = types[field.name.rstrip("_")]
            text, options = getattr(value, field.name), (hint, *get_args(hint))
            is_path = Path in options or MountTarget in options
            if isinstance(text, str) and (is_path or (field.name == "source" and getattr(value, "kind", "") == "host")):
                yield f"{key}.{field.name}", text


def _left_to_nodes(spec: JobSpec, key: str, path: str) -> str:
    """Return the path without the parts that a script expands on purpose."""
    if key.startswith("caches."):
        path = path.replace("$UID", "")
    is_of_node = key == "storage.scratch" or (key == "storage.root" and spec.storage.run != "shared")
    return path.removeprefix("~/") if key.startswith("caches.") or is_of_node else path
