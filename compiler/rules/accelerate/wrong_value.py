"""JC4603: a value of the wrong type or out of range, in accelerate.yaml or deepspeed.json."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...diagnostics import Diagnostic
from ...known_values import Value
from ...plan import LaunchPlan
from ._entries import Tree, entries, keys_below

_SILENT = "accelerate and DeepSpeed do not check it when they read the file; the ranks would fail, or do something else"


def check(plan: LaunchPlan, extra: Tree, deepspeed_extra: Tree, section: str) -> Iterator[Diagnostic]:
    for entry in entries(plan, extra, deepspeed_extra, section):
        key, value, rule = entry.key, entry.value, entry.rule
        if rule is None or value is None:  # null takes away what is there
            continue
        if not isinstance(rule, Value):
            first = next(iter(keys_below(rule, {})), "NAME")
            title, hint = f"{key} is a mapping, and {_shown(value)} is none", f"leave out {key}, or {key}.{first}=…"
            yield Diagnostic("JC4603", title, _SILENT, hint, key=key)
        elif not rule.holds(value):
            hint = f"{key}={rule.example}"
            yield Diagnostic("JC4603", f"{key}: {_shown(value)} is not {rule.words}", _SILENT, hint, key=key)


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else repr(value) if isinstance(value, str) else str(value)
