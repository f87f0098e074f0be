"""JC4606: a key that accelerate or DeepSpeed still reads under its old name."""

from collections.abc import Iterator, Mapping
from typing import Any

from ...diagnostics.diagnostic import Diagnostic, Severity
from ...emit.extra_entries import Path
from ...launchers.accelerate.engine_tables import engine_name_and_version, load_engine_tables
from ...launchers.accelerate.protected_keys import protected_keys_of_accelerate, protected_keys_of_deepspeed
from ...plan.launch_plan import LaunchPlan
from ._user_entries import Tree


def check(plan: LaunchPlan, extra: Tree, deepspeed_extra: Tree, section: str) -> Iterator[Diagnostic]:
    for file, tree, name, protected in (
        ("accelerate", extra, "extra", protected_keys_of_accelerate(plan)),
        ("deepspeed", deepspeed_extra, "deepspeed_extra", protected_keys_of_deepspeed(plan)),
    ):
        for old, new in load_engine_tables()[f"{file}_deprecated"].items():
            path = tuple(old.split("."))
            value = _value(tree, path)
            if path not in protected and value is not None:
                yield _deprecated(file, (section, name, *path), new, value)


def _value(tree: Tree, path: Path) -> Any:
    node: Any = tree
    for part in path:
        node = node.get(part) if isinstance(node, Mapping) else None
    return node


def _deprecated(file: str, path: Path, new: str, value: Any) -> Diagnostic:
    key, above = ".".join(path), ".".join(path[:-1])
    because = f"{engine_name_and_version(file)} still reads the key, with a warning; the key was renamed to {new}"
    hint = f"rename it to {above}.{new}"
    if " " in new:  # several sections replace it
        hint = f"remove {key}; set it in {new} of {above}"
    elif not isinstance(value, Mapping):
        hint = f"{above}.{new}={str(value).lower()}"
    return Diagnostic("JC4606", f"{key} is deprecated", because, hint, key=key, severity=Severity.WARNING)
