"""JC4303: an sbatch or srun option that is not given by its long name."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ....compiler.diagnostics.diagnostic import Diagnostic
from ....compiler.plan.launch_plan import LaunchPlan
from ..options import SlurmOptions
from ..spelling import LONG, more_option


def check(plan: LaunchPlan, options: SlurmOptions) -> Iterator[Diagnostic]:
    for section, extra in (("extra", options.extra), ("srun_extra", options.srun_extra)):
        for name, value in extra.items():
            text = more_option(name, value)
            if text and not re.match(rf"--{LONG}(=|$)", text):
                key = f"backend.{section}.{name}"
                because = "only long names can be compared with the options that jobc sets itself"
                yield Diagnostic("JC4303", f"{key}: {text!r} is not a long option", because, f"remove {key}", key=key)
