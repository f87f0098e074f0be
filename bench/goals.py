"""What the files of this folder print: a figure beside its goal, with bounds from resampling. Standard library only."""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence
from typing import NamedTuple


class Figure(NamedTuple):
    """Median of the values and its bounds of 95 %, by 10,000 resamples that are always drawn alike."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:.3f} ({self.low:.3f} to {self.high:.3f})"


def figure(values: Sequence[float]) -> Figure:
    draw = random.Random(0)
    medians = sorted(statistics.median(draw.choices(values, k=len(values))) for _ in range(10_000))
    return Figure(statistics.median(values), medians[250], medians[-251])


class Goal(NamedTuple):
    """One row. num: how many values; bound: the value that is held against the limit; most: of two sides the one on
    which it has to be"""

    name: str
    what: str
    num: int
    found: str
    bound: float
    limit: float
    most: bool = True

    @property
    def holds(self) -> bool:
        return self.bound <= self.limit if self.most else self.bound >= self.limit


def at_most(name: str, what: str, values: Sequence[float], limit: float) -> Goal:
    """The upper bound of the median has to stay below the limit."""
    found = figure(values)
    return Goal(name, what, len(values), str(found), found.high, limit)


def at_least(name: str, what: str, values: Sequence[float], limit: float) -> Goal:
    """The lower bound has to stay above it."""
    found = figure(values)
    return Goal(name, what, len(values), str(found), found.low, limit, most=False)


def not_below(name: str, what: str, values: Sequence[float], limit: float) -> Goal:
    """The upper bound has to reach it: what is below it is so beyond its error bar."""
    found = figure(values)
    return Goal(name, what, len(values), str(found), found.high, limit, most=False)


def table(goals: Sequence[Goal]) -> str:
    """For people, in Markdown."""
    rows = ["| goal | what | n | median (95 %) | bound | limit | |", "|---|---|---:|---:|---:|---:|---|"]
    for goal in goals:
        sign, verdict = ("≤" if goal.most else "≥"), ("held" if goal.holds else "not held")
        cells = [goal.name, goal.what, goal.num, goal.found, f"{goal.bound:.3f}", f"{sign} {goal.limit:g}", verdict]
        rows.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(rows)
