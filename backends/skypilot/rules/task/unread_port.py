"""JC4717: an invalid port."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .....compiler.diagnostics.diagnostic import Diagnostic
from ...finished import FinishedTask


def check(task: FinishedTask) -> Iterator[Diagnostic]:
    ports = task.section("resources").get("ports")
    for port in map(str, ports if isinstance(ports, list) else [] if ports is None else [ports]):
        first, dash, last = port.partition("-")
        numbers = [int(part) for part in (first, last if dash else first) if re.fullmatch(r"[0-9]{1,5}", part)]
        if len(numbers) < 2 or not 0 < numbers[0] <= numbers[1] < 2**16:
            key = task.key(("resources", "ports"))
            because = "it must be PORT or FIRST-LAST, from 1 to 65535"
            yield Diagnostic("JC4717", f"{port!r} is not a port", because, f"{key}=[6006,8000-8010]", key=key)
