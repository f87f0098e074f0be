"""JC4714: a priority out of range."""

from __future__ import annotations

from collections.abc import Iterator

from .....compiler.diagnostics.diagnostic import Diagnostic
from ...finished import FinishedTask


def check(task: FinishedTask) -> Iterator[Diagnostic]:
    priority = task.section("resources").get("priority")
    if type(priority) is int and not -1000 <= priority <= 1000:
        key = task.key(("resources", "priority"))
        because = "numbers must be from -1000 to 1000; other text names a priority class"
        yield Diagnostic(
            "JC4714",
            f"priority {priority} is out of range",
            because,
            f"{key}={1000 if priority > 0 else -1000}",
            key=key,
        )
