"""Define campaigns: a claim, and a trial that can be repeated from its number."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Line = dict[str, Any]  # a trial's stored result: `trial`, `ok`, `versions`, and what the campaign measured


class Failed(Exception):
    """Raised if the claim did not hold. The text explains why. `measured` is stored anyway."""

    def __init__(self, why: str, **measured: Any) -> None:
        super().__init__(why)
        self.measured = measured


def expect(condition: bool, why: str, **measured: Any) -> None:
    """Raise Failed if the condition, and thus the claim, does not hold."""
    if not condition:
        raise Failed(why, **measured)


def k_of_n(lines: Sequence[Line]) -> str:
    """Describe how many trials held."""
    return f"{sum(bool(line['ok']) for line in lines)} of {len(lines)}"


def k_of_n_by(key: str) -> Callable[[Sequence[Line]], str]:
    """Describe how many trials held for each value of `key`, in order of first appearance."""

    def figure(lines: Sequence[Line]) -> str:
        values = dict.fromkeys(line.get(key, "unfinished") for line in lines)
        return ", ".join(f"{k_of_n([line for line in lines if line.get(key, 'unfinished') == v])} {v}" for v in values)

    return figure


@dataclass(frozen=True)
class Campaign:
    """A claim, and how it is tested.

    claim   what should be true, for the page
    trial   what one trial does and checks, for the page
    count   trials of the full campaign
    run     (trial number, empty folder to work in) -> what was measured. It raises Failed or any other exception if
            the claim did not hold. The trials of one call share the folder's parent.
    figure  the lines of all trials -> the result in a few words
    named   the lines of all trials -> the items that the figure only counts, to be printed below it
    """

    name: str
    claim: str
    trial: str
    count: int
    run: Callable[[int, Path], dict[str, Any]]
    figure: Callable[[Sequence[Line]], str] = k_of_n
    named: Callable[[Sequence[Line]], Iterable[str]] = lambda lines: ()
