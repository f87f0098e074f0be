"""Find keys that have no effect: hosts that the backend does not use (JC2022), and keys for jobc's own trainer when the
user's command runs instead and never reads them (JC2014).

In:  the composed tree, the user's command, the key table, the spec's leaves.
Out: these diagnostics, and the list of unused keys that were left at their defaults.
"""

import shlex
from collections.abc import Iterator, Mapping, Sequence

from ..diagnostics.diagnostic import Diagnostic, Severity
from ..diagnostics.origin import AFTER_DASHES, COMMAND_LINE, Origin
from ..emit.source_map import SpecValue
from ..frontend.compose import ComposedConfig
from ..frontend.overrides import format_command_override
from ..plan.lower import KeyTable
from .capabilities import is_in_section


def check_unused_hosts(values: Mapping[str, SpecValue]) -> Iterator[Diagnostic]:
    """Yield JC2022 for hosts that were typed on the command line although the backend is the default, local."""
    backend = values["backend"]
    if is_set_on_command_line(values, "hosts") and backend.is_set_only_by_jobc and backend.value == "local":
        title = "hosts are set, but the backend does not use them"
        because = "the default is backend=local, which starts the job on this machine"
        yield Diagnostic("JC2022", title, because, "backend=ssh, backend=pdsh or backend=slurm", key="hosts")


def is_set_on_command_line(values: Mapping[str, SpecValue], key: str) -> bool:
    origin = values[key].origin
    return origin is not None and origin.root == COMMAND_LINE


def check_unused_keys(
    composed: ComposedConfig,
    command: Sequence[str],
    table: KeyTable,
    values: Mapping[str, SpecValue],
    read: Sequence[str] = (),
) -> Iterator[Diagnostic]:
    """Yield JC2014 for keys and groups that the user set although only the bundled trainer reads them.

    read: keys and sections that reach the program through another file.
    """
    lost = _find_unused(composed, table, values, read)
    names = [key for key in values if key in lost and not values[key].is_set_only_by_jobc]
    chosen = dict.fromkeys(o.key for o in composed.overrides if o.key in composed.choices)
    groups = [group for group in chosen if _is_lost(f"/{group}/{composed.choices[group]}.yaml", values, lost)]
    if not names and not groups:
        return
    hint = f"remove {(names or groups)[0]}"
    if names:
        passing = _hint_for_passing_key(command, names[0], values["command"].origin)
        hint = f"{passing}, if your program has this option; or {hint}"
    names += groups
    is_are, it_them = ("is", "it") if len(names) == 1 else ("are", "them")
    title = f"{', '.join(names)} {is_are} set, but your own command does not read {it_them}"
    because = f"only jobc's own trainer reads {it_them}, and this job does not run it"
    yield Diagnostic("JC2014", title, because, hint, composed.origin_of_choice(names[0]), names[0], Severity.NOTE)


def unused_keys_not_set_by_user(
    composed: ComposedConfig, table: KeyTable, values: Mapping[str, SpecValue], read: Sequence[str] = ()
) -> frozenset[str]:
    """Return the unused keys that the user did not set. read: as in check_unused_keys()"""
    return frozenset(key for key in _find_unused(composed, table, values, read) if values[key].is_set_only_by_jobc)


def _find_unused(
    composed: ComposedConfig, table: KeyTable, values: Mapping[str, SpecValue], read: Sequence[str]
) -> set[str]:
    # spec key -> the plan's sections that it affects. batch.global, which batch.accumulation overrides, affects none.
    sections = {key: {"train"} for key in values if f"train.{key}" in table}
    for plan_key, spec_keys in table.items():
        for key in spec_keys:
            sections.setdefault(key, set()).add(plan_key.partition(".")[0])
    used = {*composed.interpolated_keys(), *read}
    only_trainer = [key for key in values if sections.get(key) == {"train"}]
    return {key for key in only_trainer if not any(is_in_section(key, used_key) for used_key in used)}


def _is_lost(file: str, values: Mapping[str, SpecValue], lost: set[str]) -> bool:
    """Return whether every key that an option's file sets is lost."""
    origins = {key: value.origin for key, value in values.items() if value.origin and value.origin.root == "jobc"}
    option_keys = [key for key, origin in origins.items() if origin.path.endswith(file)]
    return bool(option_keys) and lost.issuperset(option_keys)


def _hint_for_passing_key(command: Sequence[str], key: str, origin: Origin | None) -> str:
    """Return a hint to pass the key's value to the program. origin: position of the command"""
    words = [f"--{key.rpartition('.')[2]}", f"${{{key}}}"]
    if origin is None or origin.root != COMMAND_LINE:
        return f"append {' and '.join(words)} to command"
    override = shlex.quote(format_command_override([*command, *words]))
    return f"{override}, without the words after --" if origin.path == AFTER_DASHES else override
