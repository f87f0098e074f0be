"""JC4718: values in the finished task that SkyPilot's own schema rejects."""

from __future__ import annotations

from collections.abc import Iterator

from .....compiler.diagnostics.diagnostic import Diagnostic
from ... import schema
from ...finished import FinishedTask


def check(task: FinishedTask) -> Iterator[Diagnostic]:
    for path, why in schema.problems(task.tree):
        key = task.key(path)
        hint = f"remove {key}" if key else "docs.skypilot.co/en/latest/reference/yaml-spec.html"
        yield Diagnostic("JC4718", f"SkyPilot would reject {'.'.join(map(str, path))}", why, hint, key=key)
