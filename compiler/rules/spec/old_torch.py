"""JC2066: a torch that is too old for the trainer."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...diagnostics.diagnostic import Diagnostic
from ...spec.job_spec import JobSpec

_OLDEST = (2, 4)  # that the trainer runs with; pyproject.toml, extra `trainer`


def check(spec: JobSpec) -> Iterator[Diagnostic]:
    version = re.match(r"(\d+)\.(\d+)", spec.site.torch or "")
    if version and spec.command is None and (int(version[1]), int(version[2])) < _OLDEST:
        oldest = ".".join(map(str, _OLDEST))
        because = f"the trainer that comes with jobc needs {oldest} or newer"
        hint = "your own program after --, or site.torch=null if the job's own environment has another"
        yield Diagnostic("JC2066", f"the site has torch {spec.site.torch}", because, hint, key="site.torch")
