"""Keys and values merged into accelerate.yaml and deepspeed.json: JC4602, JC4603, JC4606."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ...diagnostics.diagnostic import Diagnostic, Severity, nearest
from ...emit.extra_entries import Path
from ...launchers.accelerate import gpu_ids
from ...launchers.accelerate.engine_tables import (
    Section,
    describe_valid_values,
    engine_name_and_version,
    example_value,
    is_accepted_value,
    load_engine_tables,
    rule_literals,
    section_keys,
)
from ...launchers.accelerate.protected_keys import (
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


def check_unknown_key(plan: LaunchPlan, extra: Tree, deepspeed_extra: Tree, section: str) -> Iterator[Diagnostic]:
    """JC4602: a key that accelerate or DeepSpeed does not support, or no longer supports."""
    for entry in user_entries(plan, extra, deepspeed_extra, section):
        if entry.rule is None:
            yield _unknown_key(entry)


def _unknown_key(entry: UserEntry) -> Diagnostic:
    key, engine_name = entry.key, engine_name_and_version(entry.file)
    removed = (
        load_engine_tables()["deepspeed_removed"].get(".".join(entry.path_in_file))
        if entry.file == "deepspeed"
        else None
    )
    if removed:
        because = f"{engine_name} no longer accepts this key: {removed}"
        return Diagnostic("JC4602", f"{key} was removed", because, f"remove {key}", key=key)
    close = nearest(entry.path[-1], entry.known)
    hint = (
        f"did you mean {close[0]}?" if close else f"remove the key; known keys here: {', '.join(sorted(entry.known))}"
    )
    return Diagnostic("JC4602", f"unknown key {key}", f"{engine_name} has no such key", hint, key=key)


def check_deprecated_key(plan: LaunchPlan, extra: Tree, deepspeed_extra: Tree, section: str) -> Iterator[Diagnostic]:
    """JC4606: the old name of a key, which accelerate or DeepSpeed still reads."""
    for file, tree, name, protected in (
        ("accelerate", extra, "extra", accelerate_protected_keys(plan)),
        ("deepspeed", deepspeed_extra, "deepspeed_extra", deepspeed_protected_keys(plan)),
    ):
        for old, new in load_engine_tables()[f"{file}_deprecated"].items():
            path = tuple(old.split("."))
            value = _value_at(tree, path)
            if path not in protected and value is not None:
                yield _deprecated(file, (section, name, *path), new, value)


def _value_at(tree: Tree, path: Path) -> Any:
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


def check_invalid_value(plan: LaunchPlan, extra: Tree, deepspeed_extra: Tree, section: str) -> Iterator[Diagnostic]:
    """JC4603: a value that accelerate or DeepSpeed rejects, or that has the wrong type for the key."""
    for entry in user_entries(plan, extra, deepspeed_extra, section):
        rule, value = entry.rule, entry.value
        if rule is None or value is None or _is_auto_value(entry):  # null removes the entry
            continue
        if isinstance(rule, Mapping):
            first = next(iter(section_keys(entry.path_in_file, rule, {})), "NAME")
            yield _invalid_value(entry, "a mapping", f"remove {entry.key}, or {entry.key}.{first}=…")
        elif entry.path_in_file == ("gpu_ids",):
            if not gpu_ids.is_valid_gpu_ids(value):
                yield _invalid_value(entry, gpu_ids.DESCRIPTION, f"{entry.key}={gpu_ids.EXAMPLE}")
        elif not is_accepted_value(rule, value):
            close = nearest(str(value), rule_literals(rule), 1)
            yield _invalid_value(
                entry, describe_valid_values(rule), f"{entry.key}={close[0] if close else example_value(rule)}"
            )


def _is_auto_value(entry: UserEntry) -> bool:
    """Return whether the value is "auto", which DeepSpeed, accelerate or transformers replaces."""
    return bool(entry.value == "auto") and entry.file == "deepspeed"


def _invalid_value(entry: UserEntry, must_be: str, hint: str) -> Diagnostic:
    because = f"{engine_name_and_version(entry.file)} rejects this value on every rank, or misreads it"
    return Diagnostic(
        "JC4603", f"{entry.key}: {_shown(entry.value)} is invalid: must be {must_be}", because, hint, key=entry.key
    )


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else repr(value) if isinstance(value, str) else str(value)
