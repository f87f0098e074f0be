"""Keys and values merged into accelerate.yaml and deepspeed.json: JC4602, JC4603, JC4606."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ...diagnostics.diagnostic import Diagnostic, Severity, nearest
from ...emit.extra_entries import Path
from ...launchers.accelerate.engine_tables import (
    GPU_IDS_DESCRIPTION,
    GPU_IDS_EXAMPLE,
    Section,
    describe_valid_values,
    engine_name_and_version,
    example_value,
    is_accepted_value,
    is_valid_gpu_ids,
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
    """An entry in accelerate.yaml or deepspeed.json that no job key sets.

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
        return self.path[2:]


def _files_to_check(
    plan: LaunchPlan, extra: Tree, deepspeed_extra: Tree, section: str
) -> tuple[tuple[str, Tree, Protected, Path], ...]:
    """Return, for each file: its name, what the user adds, the keys that the plan sets, and the spec section."""
    return (
        ("accelerate", extra, accelerate_protected_keys(plan), (section, "extra")),
        ("deepspeed", deepspeed_extra, deepspeed_protected_keys(plan), (section, "deepspeed_extra")),
    )


def user_entries(plan: LaunchPlan, extra: Tree, deepspeed_extra: Tree, section: str) -> Iterator[UserEntry]:
    """Yield the entries of both trees. Omit those that the plan sets (JC4600), and sections whose keys are known."""
    for file, tree, protected, path in _files_to_check(plan, extra, deepspeed_extra, section):
        yield from _entries_of_section(tree, file, load_engine_tables()[file], protected, path)


def _entries_of_section(tree: Tree, file: str, known: Section, ours: Protected, path: Path) -> Iterator[UserEntry]:
    for name, value in tree.items():
        entry = UserEntry((*path, name), file, value, known.get(name), known)
        if entry.path_in_file in ours:
            continue
        if isinstance(entry.rule, Mapping) and isinstance(value, Mapping):
            keys = section_keys(entry.path_in_file, entry.rule, value)
            yield from _entries_of_section(value, file, keys, ours, entry.path)
        else:
            yield entry


def check_unknown_key(plan: LaunchPlan, extra: Tree, deepspeed_extra: Tree, section: str) -> Iterator[Diagnostic]:
    """JC4602: a key that accelerate or DeepSpeed does not support, or no longer supports."""
    for entry in user_entries(plan, extra, deepspeed_extra, section):
        if entry.rule is None:
            yield _unknown_key_diagnostic(entry)


def _unknown_key_diagnostic(entry: UserEntry) -> Diagnostic:
    key, engine_name = entry.key, engine_name_and_version(entry.file)
    removed = load_engine_tables()["deepspeed_removed"] if entry.file == "deepspeed" else {}
    if reason := removed.get(".".join(entry.path_in_file)):
        because = f"{engine_name} no longer accepts this key: {reason}"
        return Diagnostic("JC4602", f"{key} was removed", because, f"remove {key}", key=key)
    hint = f"remove the key; known keys here: {', '.join(sorted(entry.known))}"
    if close := nearest(entry.path[-1], entry.known):
        hint = f"did you mean {close[0]}?"
    return Diagnostic("JC4602", f"unknown key {key}", f"{engine_name} has no such key", hint, key=key)


def check_deprecated_key(plan: LaunchPlan, extra: Tree, deepspeed_extra: Tree, section: str) -> Iterator[Diagnostic]:
    """JC4606: the old name of a key, which accelerate or DeepSpeed still reads."""
    for file, tree, protected, parent in _files_to_check(plan, extra, deepspeed_extra, section):
        for old, new in load_engine_tables()[f"{file}_deprecated"].items():
            path = tuple(old.split("."))
            value: Any = tree
            for part in path:
                value = value.get(part) if isinstance(value, Mapping) else None
            if path not in protected and value is not None:
                yield _deprecated_key_diagnostic(file, (*parent, *path), new, value)


def _deprecated_key_diagnostic(file: str, path: Path, new: str, value: Any) -> Diagnostic:
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
        is_auto = value == "auto" and entry.file == "deepspeed"  # DeepSpeed, accelerate or transformers replaces it
        if rule is None or value is None or is_auto:  # null removes the entry
            continue
        if isinstance(rule, Mapping):
            first = next(iter(section_keys(entry.path_in_file, rule, {})), "NAME")
            yield _invalid_value_diagnostic(entry, "a mapping", f"remove {entry.key}, or {entry.key}.{first}=…")
        elif entry.path_in_file == ("gpu_ids",):
            if not is_valid_gpu_ids(value):
                yield _invalid_value_diagnostic(entry, GPU_IDS_DESCRIPTION, f"{entry.key}={GPU_IDS_EXAMPLE}")
        elif not is_accepted_value(rule, value):
            (example,) = nearest(str(value), rule_literals(rule), 1) or [example_value(rule)]
            yield _invalid_value_diagnostic(entry, describe_valid_values(rule), f"{entry.key}={example}")


def _invalid_value_diagnostic(entry: UserEntry, must_be: str, hint: str) -> Diagnostic:
    value = str(entry.value).lower() if isinstance(entry.value, bool) else repr(entry.value)
    title = f"{entry.key}: {value} is invalid: must be {must_be}"
    because = f"{engine_name_and_version(entry.file)} rejects this value on every rank, or misreads it"
    return Diagnostic("JC4603", title, because, hint, key=entry.key)
