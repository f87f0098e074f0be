"""One rule a file: jobs that compile and would fail, or waste their GPUs, where they run. Found by looking.

A file has one code and one function, `check(spec, plan)`, which yields Diagnostics, never raises, and reads its
arguments alone. Its page is ../codes/CODE.md: what one sees, why, wrong and right, a near miss, sources.
Rules that need no plan, and came before, are in check.py and the files beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

from ..diagnostics import Diagnostic
from ..plan import LaunchPlan
from ..spec import JobSpec

Rule = Callable[[JobSpec, LaunchPlan], Iterable[Diagnostic]]


@cache
def rules() -> tuple[Rule, ...]:
    """Every rule of this folder."""
    names = sorted(file.stem for file in Path(__file__).parent.glob("[a-z]*.py"))
    return tuple(import_module(f"{__name__}.{name}").check for name in names)


def check(spec: JobSpec, plan: LaunchPlan) -> Iterator[Diagnostic]:
    """What all of them find."""
    for rule in rules():
        yield from rule(spec, plan)
