"""Nothing is dropped in silence: what a plan asks for, less what a backend honours.

A must that is left is an error with the alternatives; a wish that is left is named (an error with --strict).
Also here: the generic scope check of runtime variables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import get_args, get_origin

from .backend import Backend
from .convert import choices, type_at, value_type
from .diagnostics import Diagnostic, Severity
from .lower import KeyTable
from .plan import Demand, LaunchPlan, demands
from .sourcemap import SpecValue
from .spec import JobSpec
from .words import RuntimeVar, Scope, runtime_vars


def honours(backend: Backend, key: str) -> bool:
    """Whether a plan key, or a family `section.*` that holds it, is in the backend's list."""
    section = key.split(".")[0]
    return key in backend.honours or f"{section}.*" in backend.honours


@dataclass(frozen=True)
class LeftOut:
    """A demand that a backend does not honour. key: the spec key behind it; typed: `key=value`."""

    demand: Demand
    key: str
    typed: str


def left_out(plan: LaunchPlan, backend: Backend, table: KeyTable, values: Mapping[str, SpecValue]) -> list[LeftOut]:
    """The musts, and the wishes that somebody beside our own defaults asked for, that the backend does not honour.

    table: plan key -> spec keys; values: the leaves of the spec
    """
    found = []
    for demand in demands(plan):
        key = (table.get(demand.key) or ("",))[0]
        below = {k: value for spec_key in table.get(demand.key, ()) for k, value in values.items() if at(k, spec_key)}
        asked = any(value.origin is not None and value.origin.root != "jobc" for value in below.values())
        if not honours(backend, demand.key) and (demand.must or asked):
            found.append(LeftOut(demand, key, f"{key}={_text(key, below)}"))
    return found


def check_honours(
    missing: Iterable[LeftOut], backend: Backend, able: Callable[[str], list[str]], strict: bool
) -> Iterator[Diagnostic]:
    """JC4101 for each must, JC4102 for each wish. able: plan key -> names of other backends that honour it"""
    for each in missing:
        others = able(each.demand.key)
        undo = _undo(each.key)
        hint = f"backend={others[0]}, or {undo}" if others else undo
        if each.demand.must:
            yield Diagnostic(
                "JC4101",
                f"backend {backend.name} cannot honour {each.typed}",
                f"it has no word for {each.demand.key}, and without it this would be another job",
                hint,
                key=each.key,
            )
        else:
            yield Diagnostic(
                "JC4102",
                f"backend {backend.name} leaves out {each.typed}",
                f"it has no word for {each.demand.key}; the job is the same without",
                hint,
                key=each.key,
                severity=Severity.ERROR if strict else Severity.NOTE,
            )


def check_scopes(plan: LaunchPlan, backend: Backend) -> Iterable[Diagnostic]:
    """JC4005 for a runtime variable that the backend never spells; JC4006 for one used before it is known."""
    for missing in sorted(v.name for v in RuntimeVar if v not in backend.spellings):
        yield Diagnostic(
            "JC4005", f"backend {backend.name} does not spell {missing}", "node.sh needs it", "add it to `spellings`"
        )
    slots = [("command", plan.command, Scope.RANK), *((f"env.{k}", w, Scope.RANK) for k, w in plan.env.items())]
    for slot, word, scope in [*slots, ("setup.python", plan.setup.python, Scope.NODE)]:
        for variable in sorted(runtime_vars(word), key=lambda v: v.name):
            spelling = backend.spellings.get(variable)
            if spelling and spelling.scope > scope:
                because = f"{slot} is evaluated at {scope.name}, {variable.name} is known from {spelling.scope.name} on"
                yield Diagnostic("JC4006", f"{variable.name} is used before it is known", because, f"change {slot}")


def _undo(key: str) -> str:
    """What to type so that the key asks for nothing."""
    hint = type_at(JobSpec, key) if key else None
    if type(None) in get_args(hint):
        return f"{key}=null"
    for word in ("none", "false"):
        if word in choices(hint):
            return f"{_group(key)}={word}"
    if get_origin(hint) is tuple:
        return f"{key}=[]"
    return f"{key}=0" if value_type(hint) else f"leave out {key}"


def _group(key: str) -> str:
    """The group that sets `SECTION.kind`, else the key itself."""
    section, _, name = key.rpartition(".")
    return {"python": "env"}.get(section, section) if name == "kind" else key


def at(key: str, section: str) -> bool:
    """Whether a dotted key is the section or lies below it."""
    return key == section or key.startswith(f"{section}.")


def _text(key: str, values: Mapping[str, SpecValue]) -> str:
    """The value of a spec key as a user would type it; values: its leaves."""
    if key not in values:
        inner = (f"{name.removeprefix(f'{key}.')}: {value.value}" for name, value in values.items())
        return "{" + ", ".join(inner) + "}"
    value = values[key].value
    return f"[{','.join(value)}]" if isinstance(value, list) else str(value)
