"""JC4602: a key that accelerate or DeepSpeed does not support, or no longer supports."""

from collections.abc import Iterator

from ...diagnostics.diagnostic import Diagnostic, nearest
from ...launchers.accelerate.engine_tables import engine_name_and_version, load_engine_tables
from ...plan.launch_plan import LaunchPlan
from ._user_entries import Tree, UserEntry, user_entries


def check(plan: LaunchPlan, extra: Tree, deepspeed_extra: Tree, section: str) -> Iterator[Diagnostic]:
    for entry in user_entries(plan, extra, deepspeed_extra, section):
        if entry.rule is None:
            yield _unknown(entry)


def _unknown(entry: UserEntry) -> Diagnostic:
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
