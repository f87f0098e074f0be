"""JC2016: torchrun's c10d rendezvous with another launcher."""

from __future__ import annotations

from collections.abc import Iterator

from ...diagnostics.diagnostic import Diagnostic
from ...spec.job_spec import JobSpec


def check(spec: JobSpec) -> Iterator[Diagnostic]:
    if spec.rendezvous.backend == "c10d" and spec.launcher != "torchrun":
        because = "c10d is a rendezvous of torchrun's agents, which no other launcher has"
        title = f"rendezvous.backend=c10d needs torchrun, not launcher={spec.launcher}"
        hint = "rendezvous.backend=static; or launcher=torchrun"
        yield Diagnostic("JC2016", title, because, hint, key="rendezvous.backend")
