"""JC2007: the same name in env and in secrets."""

from __future__ import annotations

from collections.abc import Iterator

from ...diagnostics.diagnostic import Diagnostic
from ...spec.job_spec import JobSpec


def check(spec: JobSpec) -> Iterator[Diagnostic]:
    for name in spec.env:
        if name in spec.secrets:
            because = "it is undefined which of the two values the ranks would get"
            yield Diagnostic("JC2007", f"{name} is in env and in secrets", because, f"~env.{name}", key=f"env.{name}")
