"""JC4303: an option of sbatch that backend.extra does not give by its long name."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ....compiler.diagnostics.diagnostic import Diagnostic
from ....compiler.plan.launch_plan import LaunchPlan
from ..options import SlurmOptions
from ..spelling import LONG, more_option


def check(plan: LaunchPlan, options: SlurmOptions) -> Iterator[Diagnostic]:
    for name, value in options.extra.items():
        text = more_option(name, value)
        if text and not re.match(rf"--{LONG}(=|$)", text):
            key = f"backend.extra.{name}"
            because = "only long names can be compared with the options that jobc sets itself"
            yield Diagnostic("JC4303", f"{key}: {text!r} is not a long option", because, f"remove {key}", key=key)
