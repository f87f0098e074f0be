"""JC4603: a value that accelerate or DeepSpeed rejects, or whose type differs from the key's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...diagnostics.diagnostic import Diagnostic, nearest
from ...launchers.accelerate import gpu_ids
from ...launchers.accelerate.engine_tables import accepts, description, engine, example, keys_below, literals
from ...plan.launch_plan import LaunchPlan
from ._user_entries import Tree, UserEntry, user_entries


def check(plan: LaunchPlan, extra: Tree, deepspeed_extra: Tree, section: str) -> Iterator[Diagnostic]:
    for entry in user_entries(plan, extra, deepspeed_extra, section):
        rule, value = entry.rule, entry.value
        if rule is None or value is None or _is_dropped(entry):  # null removes the entry
            continue
        if isinstance(rule, Mapping):
            first = next(iter(keys_below(entry.inside, rule, {})), "NAME")
            yield _wrong(entry, "a mapping", f"remove {entry.key}, or {entry.key}.{first}=…")
        elif entry.inside == ("gpu_ids",):
            if not gpu_ids.are_gpus(value):
                yield _wrong(entry, gpu_ids.DESCRIPTION, f"{entry.key}={gpu_ids.EXAMPLE}")
        elif not accepts(rule, value):
            close = nearest(str(value), literals(rule), 1)
            yield _wrong(entry, description(rule), f"{entry.key}={close[0] if close else example(rule)}")


def _is_dropped(entry: UserEntry) -> bool:
    """Return whether the value is "auto", which DeepSpeed, accelerate or transformers replaces."""
    return bool(entry.value == "auto") and entry.file == "deepspeed"


def _wrong(entry: UserEntry, must_be: str, hint: str) -> Diagnostic:
    because = f"{engine(entry.file)} rejects this value on every rank, or misreads it"
    return Diagnostic(
        "JC4603", f"{entry.key}: {_shown(entry.value)} is invalid: must be {must_be}", because, hint, key=entry.key
    )


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else repr(value) if isinstance(value, str) else str(value)
