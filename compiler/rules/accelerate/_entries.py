"""What the rules on the two trees share: every entry that no key of the job says, with what is known of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ...accelerate_known import ACCELERATE
from ...accelerate_protected import FSDP_1, Protected, of_accelerate, of_deepspeed
from ...deepspeed_known import DEEPSPEED
from ...extra import Path
from ...known_values import Known, Value
from ...plan import LaunchPlan

Tree = Mapping[str, Any]


class Entry(NamedTuple):
    """path: from the section on; rule: what its value must be, None for an unknown key; known, ours: beside it"""

    path: Path
    value: Any
    rule: Any
    known: Known
    ours: Protected

    @property
    def key(self) -> str:
        return ".".join(self.path)


def entries(plan: LaunchPlan, extra: Tree, deepspeed_extra: Tree, section: str) -> Iterator[Entry]:
    """Of both trees; what the plan says is passed over (JC4600), and so is a mapping that has known keys."""
    yield from _entries(extra, ACCELERATE, of_accelerate(plan), (section, "extra"))
    yield from _entries(deepspeed_extra, DEEPSPEED, of_deepspeed(plan), (section, "deepspeed_extra"))


def keys_below(rule: Any, tree: Tree) -> Known:
    """The keys that may stand in a mapping. rule: of it"""
    below: Known = rule(tree) if callable(rule) else rule
    return below


def is_of_fsdp_1(name: str) -> bool:
    return name.removeprefix("fsdp_") in FSDP_1


def _entries(tree: Tree, known: Known, ours: Protected, at: Path) -> Iterator[Entry]:
    for name, value in tree.items():
        path, rule = (*at, name), known.get(name)
        inside = path[2:]
        if any(inside == own for own in ours):
            continue
        is_ours = any(own[: len(inside)] == inside for own in ours)
        if rule is None and is_ours and isinstance(value, Mapping):
            yield from _entries(value, {}, ours, path)
        elif rule is not None and not isinstance(rule, Value) and isinstance(value, Mapping):
            yield from _entries(value, keys_below(rule, value), ours, path)
        else:
            yield Entry(path, value, rule, known, ours)
