"""Rules check a job before it uses a GPU. The rules are found by listing their folder.

A rule is a function that yields Diagnostics with one code and reads only its arguments. A rule's file has one function,
`check`, or several about one subject, `check_NAME`. A rule may rely on other rules to reject bad values: its exception
is dropped if any rule reports an error (collect_findings()). The folder determines the arguments:

    spec/                 check(spec)     before anything is derived from it
    values/               check(values)   each leaf of the spec and of the backend's options, by its key
    plan/                 check(spec, plan)
    accelerate/           check(plan, extra, deepspeed_extra, section)   additions to accelerate.yaml, deepspeed.json
    estimate/rules/       check(figures, spec, plan)   one size; yields Findings, a Diagnostic and how bad it is
    backends/NAME/rules/  check(plan, options)

A rule's page is CODE.md in `codes/`: the symptom, the cause, wrong and right, a near miss, sources. All rules run
and report. Files whose names begin with _ are shared by several rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from ..diagnostics.diagnostic import Diagnostic
from ..emit.source_map import SpecValue
from ..plan.launch_plan import LaunchPlan
from ..spec.job_spec import JobSpec


def check_spec(spec: JobSpec) -> Iterator[Diagnostic]:
    return findings(f"{__name__}.spec", spec)


def check_values(values: Mapping[str, SpecValue]) -> Iterator[Diagnostic]:
    return findings(f"{__name__}.values", values)


def check_plan(spec: JobSpec, plan: LaunchPlan) -> Iterator[Diagnostic]:
    return findings(f"{__name__}.plan", spec, plan)


def findings(folder: str, *arguments: object) -> Iterator[Any]:
    """Yield the findings of the rules in a folder. folder: package name, `my_plugin.rules`; arguments: for each rule"""
    return run_all(*(partial(rule, *arguments) for rule in _rules(folder)))


def run_all(*checks: Callable[[], Iterable[Any]]) -> Iterator[Any]:
    """Yield the findings of all checks. The first exception is raised only at the end, because a later check may report
    its cause.
    """
    failure: Exception | SystemExit | None = None  # SystemExit may come from a plugin
    for check in checks:
        try:
            yield from check()
        except (Exception, SystemExit) as error:
            failure = failure or error
    if failure is not None:
        raise failure


def collect_findings(*checks: Callable[[], Iterable[Diagnostic]]) -> tuple[list[Diagnostic], BaseException | None]:
    """Return the findings of all checks, and the first exception that one of them raised, for Levels.settle()."""
    diagnostics: list[Diagnostic] = []
    try:
        diagnostics.extend(run_all(*checks))  # keep what was found before the exception
    except (Exception, SystemExit) as error:
        return diagnostics, error
    return diagnostics, None


@cache
def _rules(folder: str) -> tuple[Callable[..., Iterable[Any]], ...]:
    """Return the rules in a folder, by file."""
    init_file = import_module(folder).__file__
    assert init_file is not None, f"{folder} has no __init__.py"
    names = sorted(file.stem for file in Path(init_file).parent.glob("[a-z]*.py"))
    return tuple(rule for name in names for rule in _rules_of(import_module(f"{folder}.{name}")))


def _rules_of(module: ModuleType) -> list[Callable[..., Iterable[Any]]]:
    named = [value for name, value in vars(module).items() if name == "check" or name.startswith("check_")]
    return [value for value in named if value.__module__ == module.__name__]
