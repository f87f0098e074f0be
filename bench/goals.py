"""Print figures beside their goals, with bounds from resampling. Standard library only."""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence
from typing import NamedTuple


class Figure(NamedTuple):
    """Median of the values and its 95 % bounds, from 10,000 resamples with a fixed seed."""

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
    """One row of the table.

    num: number of values
    bound: the value that is compared with the limit
    most: whether the limit is a maximum
    """

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
    """Require the upper bound of the median to be at most the limit."""
    found = figure(values)
    return Goal(name, what, len(values), str(found), found.high, limit)


def at_least(name: str, what: str, values: Sequence[float], limit: float) -> Goal:
    """Require the lower bound of the median to be at least the limit."""
    found = figure(values)
    return Goal(name, what, len(values), str(found), found.low, limit, most=False)


def not_below(name: str, what: str, values: Sequence[float], limit: float) -> Goal:
    """Require the upper bound to reach the limit: fail only if the median is below it by more than its error bar."""
    found = figure(values)
    return Goal(name, what, len(values), str(found), found.high, limit, most=False)


def table(goals: Sequence[Goal]) -> str:
    """Return the goals as a Markdown table."""
    rows = ["| goal | what | n | median (95 %) | bound | limit | |", "|---|---|---:|---:|---:|---:|---|"]
    for goal in goals:
        sign, verdict = ("≤" if goal.most else "≥"), ("held" if goal.holds else "not held")
        cells = [goal.name, goal.what, goal.num, goal.found, f"{goal.bound:.3f}", f"{sign} {goal.limit:g}", verdict]
        rows.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(rows)
