"""Find every entry in accelerate.yaml and deepspeed.json that no job key sets, and its type. Several rules use this."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ...emit.extra_entries import Path
from ...launchers.accelerate.engine_tables import Section, load_engine_tables, section_keys
from ...launchers.accelerate.protected_keys import (
    FSDP_1,
    Protected,
    accelerate_protected_keys,
    deepspeed_protected_keys,
)
from ...plan.launch_plan import LaunchPlan

Tree = Mapping[str, Any]


class UserEntry(NamedTuple):
    """One entry.

    path: starts with the spec section.
    file: `accelerate` or `deepspeed`.
    rule: the type of its value, or the keys if it is a section, or None if the key is unknown.
    known: the valid keys in the same section.
    """

    path: Path
    file: str
    value: Any
    rule: str | Section | None
    known: Section

    @property
    def key(self) -> str:
        return ".".join(self.path)

    @property
    def path_in_file(self) -> Path:
        """Return the path in the file."""
        return self.path[2:]


def user_entries(plan: LaunchPlan, extra: Tree, deepspeed_extra: Tree, section: str) -> Iterator[UserEntry]:
    """Yield the entries of both trees. Omit those that the plan sets (JC4600), and sections whose keys are known."""
    yield from _entries_of_section(
        extra, "accelerate", load_engine_tables()["accelerate"], accelerate_protected_keys(plan), (section, "extra")
    )
    path = (section, "deepspeed_extra")
    yield from _entries_of_section(
        deepspeed_extra, "deepspeed", load_engine_tables()["deepspeed"], deepspeed_protected_keys(plan), path
    )


def is_fsdp_1_only(name: str) -> bool:
    return name.removeprefix("fsdp_") in FSDP_1


def _entries_of_section(tree: Tree, file: str, known: Section, ours: Protected, at: Path) -> Iterator[UserEntry]:
    for name, value in tree.items():
        path, rule = (*at, name), known.get(name)
        inside = path[2:]
        if any(inside == protected for protected in ours):
            continue
        if isinstance(rule, Mapping) and isinstance(value, Mapping):
            yield from _entries_of_section(value, file, section_keys(inside, rule, value), ours, path)
        else:
            yield UserEntry(path, file, value, rule, known)
