"""JC2066: a torch version that is too old for the trainer."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...diagnostics.diagnostic import Diagnostic
from ...spec.job_spec import JobSpec

_OLDEST = (2, 4)  # oldest version that the trainer supports; pyproject.toml, extra `trainer`


def check(spec: JobSpec) -> Iterator[Diagnostic]:
    version = re.match(r"(\d+)\.(\d+)", spec.site.torch or "")
    if version and spec.command is None and (int(version[1]), int(version[2])) < _OLDEST:
        oldest = ".".join(map(str, _OLDEST))
        because = f"jobc's own trainer needs torch {oldest} or newer"
        hint = "run your own program after --, or set site.torch=null if the job's environment has another version"
        yield Diagnostic("JC2066", f"the site has torch {spec.site.torch}", because, hint, key="site.torch")
