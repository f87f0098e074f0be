"""What a value in an engine's file must be: for the tables of keys that an engine itself does not check.

accelerate_known.py, deepspeed_known.py   the tables
rules/accelerate/                         reads them
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Value:
    """What a value must be. words: for people; example: one that is right."""

    words: str
    holds: Callable[[Any], bool]
    example: str


Tree = Mapping[str, Any]
# key -> what may stand there: a value, more keys, or keys that depend on the tree there (`params` on `type`).
Known = Mapping[str, "Value | Tree | Callable[[Tree], Tree]"]


def whole(least: int) -> Value:
    def holds(value: Any) -> bool:
        return type(value) is int and value >= least

    return Value(f"a whole number of at least {least}", holds, str(max(least, 1)))


def words(*known: str) -> Value:
    return Value(f"one of {', '.join(known)}", lambda value: isinstance(value, str) and value in known, known[-1])


def any_case(*known: str) -> Value:
    lower = [word.lower() for word in known]
    return replace(words(*known), holds=lambda value: isinstance(value, str) and value.lower() in lower)


def either(one: Value, other: Value) -> Value:
    return Value(f"{one.words}, or {other.words}", lambda value: one.holds(value) or other.holds(value), one.example)


def number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


SWITCH = Value("true or false", lambda value: isinstance(value, bool), "true")
TEXT = Value("text", lambda value: isinstance(value, str) and value != "", "TEXT")
COUNT, COUNT_OR_0 = whole(1), whole(0)
NUMBER = Value("a number of at least 0", lambda value: number(value) and value >= 0, "1.0")
SHARE = Value("a number from 0 to 1", lambda value: number(value) and 0 <= value <= 1, "0.5")
AUTO = Value("auto", lambda value: value == "auto", "auto")
SECTION = Value("a mapping", lambda value: isinstance(value, Mapping), "{}")
LIST = Value("a list", lambda value: isinstance(value, tuple), "[]")
