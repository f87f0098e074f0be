"""JC4717: a label that is invalid for pods, on infrastructure whose machines are pods."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .....compiler.diagnostics.diagnostic import Diagnostic
from ...._shared.kubernetes_forms import LABEL_KEY, LABEL_VALUE
from ...config import PODS
from ...finished import FinishedTask


def check(task: FinishedTask) -> Iterator[Diagnostic]:
    if not any(machine.cloud in PODS for machine in task.machines()):
        return
    for name, label in task.section("resources", "labels").items():
        value = str(label)
        if not re.fullmatch(LABEL_KEY, name) or not re.fullmatch(LABEL_VALUE, value):
            key = task.key(("resources", "labels", name))
            because = "it must be at most 63 of A-Za-z0-9-_. and start and end with a letter or digit"
            hint = f"{key}={re.sub(r'[^A-Za-z0-9]+', '-', value)[:63].strip('-')}"
            yield Diagnostic("JC4717", f"{key}={value!r} is not a valid label", because, hint, key=key)
