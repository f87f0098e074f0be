"""JC4603: a value that accelerate or DeepSpeed rejects, or whose type differs from the key's."""

from collections.abc import Iterator, Mapping
from typing import Any

from ...diagnostics.diagnostic import Diagnostic, nearest
from ...launchers.accelerate import gpu_ids
from ...launchers.accelerate.engine_tables import (
    describe_valid_values,
    engine_name_and_version,
    example_value,
    is_accepted_value,
    keys_of_section,
    literals_in_rule,
)
from ...plan.launch_plan import LaunchPlan
from ._user_entries import Tree, UserEntry, user_entries


def check(plan: LaunchPlan, extra: Tree, deepspeed_extra: Tree, section: str) -> Iterator[Diagnostic]:
    for entry in user_entries(plan, extra, deepspeed_extra, section):
        rule, value = entry.rule, entry.value
        if rule is None or value is None or _is_dropped(entry):  # null removes the entry
            continue
        if isinstance(rule, Mapping):
            first = next(iter(keys_of_section(entry.path_in_file, rule, {})), "NAME")
            yield _wrong(entry, "a mapping", f"remove {entry.key}, or {entry.key}.{first}=…")
        elif entry.path_in_file == ("gpu_ids",):
            if not gpu_ids.is_valid_gpu_ids(value):
                yield _wrong(entry, gpu_ids.DESCRIPTION, f"{entry.key}={gpu_ids.EXAMPLE}")
        elif not is_accepted_value(rule, value):
            close = nearest(str(value), literals_in_rule(rule), 1)
            yield _wrong(
                entry, describe_valid_values(rule), f"{entry.key}={close[0] if close else example_value(rule)}"
            )


def _is_dropped(entry: UserEntry) -> bool:
    """Return whether the value is "auto", which DeepSpeed, accelerate or transformers replaces."""
    return bool(entry.value == "auto") and entry.file == "deepspeed"


def _wrong(entry: UserEntry, must_be: str, hint: str) -> Diagnostic:
    because = f"{engine_name_and_version(entry.file)} rejects this value on every rank, or misreads it"
    return Diagnostic(
        "JC4603", f"{entry.key}: {_shown(entry.value)} is invalid: must be {must_be}", because, hint, key=entry.key
    )


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else repr(value) if isinstance(value, str) else str(value)
