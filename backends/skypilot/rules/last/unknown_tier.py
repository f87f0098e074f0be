"""JC4718: an unknown tier. SkyPilot's schema accepts any text, but SkyPilot rejects it when it reads the task."""

from __future__ import annotations

from collections.abc import Iterator

from .....compiler.diagnostics.diagnostic import Diagnostic
from ...finished import FinishedTask
from ...sky_names import TIERS
from .._undo import undo


def check(task: FinishedTask) -> Iterator[Diagnostic]:
    for name, words in TIERS.items():
        tier = task.section("resources").get(name)
        if tier not in (None, *words):
            title, key = f"SkyPilot would reject resources.{name}", task.key(("resources", name))
            hint = undo(key, f"backend.{name}={words[0]}")
            yield Diagnostic("JC4718", title, f"it must be one of {', '.join(words)}", hint, key=key)
