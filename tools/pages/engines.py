"""engines.md: what a backend's engine.py may import, generated from the docstrings."""

from __future__ import annotations

import inspect

from jobc.runtime.engines import api

from ._common import GENERATED, table

CLASSES = (
    "StartingEngine",
    "OneMachineEngine",
    "HostsEngine",
    "Engine",
    "NewRun",
    "Place",
    "Run",
    "Table",
)
VALUES = ("State", "NodeLine", "Answer", "Failure", "LogRequest")


def page() -> str:
    out = ["# Engines\n", GENERATED, INTRODUCTION]
    for name in CLASSES:
        out += [f"## {name}\n", f"{_summary(getattr(api, name))}\n", _methods(name)]
    out += ["## Values\n", table(("class", "what it is"), *((f"`{n}`", _summary(getattr(api, n))) for n in VALUES))]
    functions = [name for name in api.__all__ if inspect.isfunction(getattr(api, name))]
    rows = [(_signature(name, getattr(api, name)), _summary(getattr(api, name))) for name in functions]
    out += ["## Functions\n", table(("function", "what it does"), *rows)]
    return "\n".join(out)


def _methods(name: str) -> str:
    """Return a table of the methods that the class itself defines and documents."""
    members = vars(getattr(api, name)).items()
    rows = [
        (_signature(method, function), _summary(function))
        for method, function in members
        if inspect.isfunction(function) and function.__doc__ and not method.startswith("_")
    ]
    return table(("method", "what it does"), *rows)


def _signature(name: str, function: object) -> str:
    assert callable(function)
    names = [parameter for parameter in inspect.signature(function).parameters if parameter != "self"]
    return f"`{name}({', '.join(names)})`"


def _summary(of: object) -> str:
    """Return an object's docstring as one line."""
    return " ".join((inspect.getdoc(of) or "").split())


INTRODUCTION = """\
A backend's `engine.py` may import these names from `jobc.runtime.engines.api`. The file is packed into `jobctl` and
runs on the submit host, with only the standard library of Python 3.8.
"""
