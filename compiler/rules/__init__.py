"""Rules check a job before it uses a GPU. The rules are found by listing their folder.

A rule is a function that yields Diagnostics and reads only its arguments. A file has one rule, named
`check`, or several about one subject, named `check_NAME`. A file without a rule is an error. A rule may rely on other
rules to reject bad values, because an exception in a rule is ignored if an error is also reported (collect_findings()).
The folder determines the arguments:

    spec/                 check(spec)     before anything is derived from it
    values/               check(values)   each leaf of the spec and of the backend's options, by its key
    plan/                 check(spec, plan)
    accelerate/           check(plan, extra, deepspeed_extra, section)   additions to accelerate.yaml, deepspeed.json
    estimate/rules/       check(figures, spec, plan)   one size; yields SizeFindings: a Diagnostic and how bad it is
    backends/NAME/rules/  check(plan, options)

A rule's page is CODE.md in `codes/`. It describes the symptom and the cause, and has a wrong example, a right one, a
near miss and sources. All rules run and report. Files whose names begin with _ are shared by several rules.
"""

import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from importlib import import_module
from inspect import signature
from pathlib import Path
from types import ModuleType
from typing import Any

from ..diagnostics.diagnostic import Diagnostic


def check_rules(folder: str, *arguments: object) -> Iterator[Diagnostic]:
    """Yield the findings of jobc's own rules in a folder, such as `spec`."""
    return findings(f"{__name__}.{folder}", *arguments)


def findings(folder: str, *arguments: object) -> Iterator[Any]:
    """Yield the findings of the rules in a folder.

    folder: package name, such as `my_plugin.rules`.
    arguments: passed to each rule.
    """
    return run_all(*(partial(rule, *arguments) for rule in _load_rules(folder, len(arguments))))


def run_all(*checks: Callable[[], Iterable[Any]]) -> Iterator[Any]:
    """Yield the findings of all checks. Raises the first exception last, because a later check may report its cause."""
    failure: Exception | SystemExit | None = None  # SystemExit may come from a plugin
    for check in checks:
        try:
            yield from check()
        except (Exception, SystemExit) as error:
            failure = failure or error
    if failure is not None:
        raise failure


def collect_findings(*checks: Callable[[], Iterable[Diagnostic]]) -> tuple[list[Diagnostic], BaseException | None]:
    """Return the findings of all checks, and the first exception of a check, for SeverityFilter.finish_stage()."""
    diagnostics: list[Diagnostic] = []
    try:
        diagnostics.extend(run_all(*checks))  # keep what was found before the exception
    except (Exception, SystemExit) as error:
        return diagnostics, error
    return diagnostics, None


@cache
def _load_rules(folder: str, arguments: int) -> tuple[Callable[..., Iterable[Any]], ...]:
    """Return the rules in a folder, ordered by file. arguments: number of arguments that each rule takes"""
    init_file = import_module(folder).__file__
    assert init_file is not None, f"{folder} has no __init__.py"
    names = sorted(file.stem for file in Path(init_file).parent.glob("[!_.]*.py"))
    return tuple(rule for name in names for rule in _rules_of(import_module(f"{folder}.{name}"), arguments))


def _rules_of(module: ModuleType, arguments: int) -> list[Callable[..., Iterable[Any]]]:
    """Return the rules in a file.

    Raises TypeError if the file has no rule, or one that cannot be called with these arguments, because such a rule
    would never run.
    """
    rules = {name: value for name, value in vars(module).items() if name.startswith("check")}
    rules = {name: rule for name, rule in rules.items() if not _is_imported(rule, name, module)}
    if not rules:
        raise TypeError(f"{module.__name__}: it has no function check or check_NAME")
    for name, rule in rules.items():
        if name != "check" and not name.startswith("check_"):
            raise TypeError(f"{module.__name__}: {name} is neither check nor check_NAME")
        if not callable(rule):
            raise TypeError(f"{module.__name__}: {name} is not a function")
        try:
            signature(rule).bind(*range(arguments))
        except TypeError as error:
            raise TypeError(f"{module.__name__}: {name} must take {arguments} arguments: {error}") from None
    return [*rules.values()]


def _is_imported(value: object, name: str, module: ModuleType) -> bool:
    """Return whether the module imports the value with that name instead of defining it."""
    source = sys.modules.get(getattr(value, "__module__", None) or "")
    return isinstance(value, ModuleType) or (source not in (None, module) and getattr(source, name, None) is value)
