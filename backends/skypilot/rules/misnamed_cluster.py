"""JC4717: an invalid cluster name for `sky launch`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ....compiler.diagnostics.diagnostic import Diagnostic
from ....compiler.plan.launch_plan import LaunchPlan
from .. import task
from ..options import SkypilotOptions

_NAME = r"[a-zA-Z]([-_.a-zA-Z0-9]*[a-zA-Z0-9])?"


def check(plan: LaunchPlan, options: SkypilotOptions) -> Iterator[Diagnostic]:
    if options.cluster is not None and not re.fullmatch(_NAME, options.cluster):
        because = "it must start with a letter, contain only letters, digits and -_. and end with a letter or digit"
        hint = f"backend.cluster={task.cluster_name(options.cluster)}"
        yield Diagnostic("JC4717", f"{options.cluster!r} is not a cluster name", because, hint, key="backend.cluster")
