"""Nothing is dropped in silence: what a plan asks for, less what a backend honours.

A must that is left is an error with the alternatives; a wish that is left is named (an error with --strict).
Also here: the generic scope check of runtime variables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import get_args, get_origin

from .backend import Backend
from .convert import choices, type_at
from .diagnostics import Diagnostic, Severity
from .lower import KeyTable
from .plan import Demand, LaunchPlan, demands
from .spec import JobSpec
from .words import RuntimeVar, Scope, runtime_vars


def honours(backend: Backend, key: str) -> bool:
    """Whether a plan key, or a family `section.*` that holds it, is in the backend's list."""
    section = key.split(".")[0]
    return key in backend.honours or f"{section}.*" in backend.honours


def left_out(plan: LaunchPlan, backend: Backend, asked: Callable[[str], bool]) -> list[Demand]:
    """What was asked for (asked: plan key -> whether somebody beside our own defaults set it) and is not honoured."""
    return [d for d in demands(plan) if not honours(backend, d.key) and (d.must or asked(d.key))]


def check_honours(
    missing: Iterable[Demand], backend: Backend, able: Callable[[str], list[str]], table: KeyTable, strict: bool
) -> Iterator[Diagnostic]:
    """JC4101 for each must, JC4102 for each wish that the backend cannot express.

    able: plan key -> names of backends that honour it; table: plan key -> spec keys
    """
    for demand in missing:
        key = (table.get(demand.key) or ("",))[0]
        others = able(demand.key)
        undo = _undo(key)
        hint = f"backend={others[0]}, or {undo}" if others else undo
        if demand.must:
            yield Diagnostic(
                "JC4101",
                f"backend {backend.name} cannot honour {key}={shown(demand.value)}",
                f"it has no word for {demand.key}, and without it this would be another job",
                hint,
                key=key,
            )
        else:
            yield Diagnostic(
                "JC4102",
                f"backend {backend.name} leaves out {key}={shown(demand.value)}",
                f"it has no word for {demand.key}; the job is the same without",
                hint,
                key=key,
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
    if "none" in choices(hint):
        return f"{_group(key)}=none"
    return f"{key}=[]" if get_origin(hint) is tuple else f"leave {key} at its default"


def _group(key: str) -> str:
    """The group that sets `SECTION.kind`, else the key itself."""
    section, _, name = key.rpartition(".")
    return {"python": "env"}.get(section, section) if name == "kind" else key


def shown(value: object) -> str:
    """A plan value as a user would type it."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name}: {inner}" for name, inner in value.items()) + "}"
    return ",".join(str(v) for v in value) if isinstance(value, tuple) else str(value)
