"""JC4602: a key that accelerate or DeepSpeed does not have, or has no more."""

from __future__ import annotations

from collections.abc import Iterator

from ...deepspeed_known import REMOVED
from ...diagnostics import Diagnostic, nearest
from ...plan import LaunchPlan
from ._entries import Entry, Tree, entries, is_of_fsdp_1


def check(plan: LaunchPlan, extra: Tree, deepspeed_extra: Tree, section: str) -> Iterator[Diagnostic]:
    for entry in entries(plan, extra, deepspeed_extra, section):
        name = entry.path[-1]
        if entry.rule is None and not (name.startswith("fsdp_") and is_of_fsdp_1(name)):  # JC4604
            yield _unknown(entry)


def _unknown(entry: Entry) -> Diagnostic:
    key, name, above, of_deepspeed = entry.key, entry.path[-1], entry.path[2:-1], entry.path[1] == "deepspeed_extra"
    if of_deepspeed and not above and name in REMOVED:
        because = "DeepSpeed 0.19 has it no more, and every rank would end with that"
        return Diagnostic("JC4602", f"{key} is gone", because, f"leave it out; {REMOVED[name]}", key=key)
    said = (own[len(above)] for own in entry.ours if own[: len(above)] == above and len(own) > len(above))
    there = [*entry.known, *said]
    close = nearest(name, there)
    hint = f"did you mean {close[0]}?" if close else f"leave it out; known here: {', '.join(sorted(set(there)))}"
    whose = "DeepSpeed 0.19" if of_deepspeed else "accelerate 1.15"
    return Diagnostic("JC4602", f"unknown key {key}", f"{whose} has no such key", hint, key=key)
