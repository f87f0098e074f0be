"""A script without what the user has written into it: of that only execution can say whether it is as planned.

In   the text of a script, the plan
Out  the same lines, where the user's values, as they are quoted there, and lines of setup are empty
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import Any


def without(text: str, plan: Mapping[str, Any], least_lines: int = 1) -> str:
    """least_lines: of a value that is taken out."""
    values = sorted({value for value in _strings(plan.values()) if value.count("\n") >= least_lines - 1}, key=len)
    for value in filter(str.strip, reversed(values)):  # a quoted blank looks like what is between two quoted words
        if (quoted := shlex.quote(value)) != value:
            text = text.replace(quoted, "'" + "\n" * value.count("\n") + "'")
    if least_lines > 1:
        return text
    whole = {value for value in values if shlex.quote(value) == value} | {*_strings(_setup(plan))}
    return "\n".join("" if line.strip() in whole else line for line in text.split("\n"))


def _setup(plan: Mapping[str, Any]) -> Iterator[Any]:
    return (value for key, value in plan.items() if key.startswith("setup."))


def _strings(values: Iterable[Any]) -> Iterator[str]:
    for value in values:
        if isinstance(value, str):
            yield value
        elif isinstance(value, Mapping):
            yield from _strings(value.values())
        elif isinstance(value, (list, tuple)):
            yield from _strings(value)
