"""JC2006: a variable in env that the launcher sets."""

from __future__ import annotations

from collections.abc import Iterator

from ...diagnostics import Diagnostic
from ...reserved import is_derived
from ...spec import JobSpec


def check(spec: JobSpec) -> Iterator[Diagnostic]:
    for name, value in spec.env.items():
        if is_derived(name):
            title, because = f"env.{name} is derived, never typed", "a value by hand would contradict the launcher's"
            yield Diagnostic("JC2006", title, because, _instead(name, value), key=f"env.{name}")


def _instead(name: str, value: str) -> str:
    keys = {"OMP_NUM_THREADS": "threads", "MASTER_PORT": "rendezvous.port"}
    if name in keys and value.isdigit():
        return f"~env.{name} {keys[name]}={value}"
    return "~env.WORLD_SIZE nodes=2 procs=4" if name == "WORLD_SIZE" else f"~env.{name}"
