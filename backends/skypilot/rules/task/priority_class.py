"""JC4714: a priority that is neither an integer nor a valid class name."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .....compiler.diagnostics.diagnostic import Diagnostic
from ...._shared.kubernetes_forms import DNS_NAME
from ...finished import FinishedTask


def check(task: FinishedTask) -> Iterator[Diagnostic]:
    name, key = task.section("resources").get("priority_class"), task.key(("resources", "priority_class"))
    if not isinstance(name, str):
        return
    if re.fullmatch(r"[-+]?[0-9]*\.?[0-9]+", name):  # such as 0.5 and 010, names of a-z, 0-9, dash and dot
        because = "a number must be an integer without a leading 0; SkyPilot would read this one as a class name"
        hint = f"{key}={max(-1000, min(1000, round(float(name))))}"
        yield Diagnostic("JC4714", f"priority {name} is not valid", because, hint, key=key)
    elif not re.fullmatch(DNS_NAME, name):
        because = "it must be a number from -1000 to 1000, or a class name that contains only a-z, 0-9, dash and dot"
        yield Diagnostic("JC4714", f"{name!r} is not a priority class", because, f"{key}=high", key=key)
