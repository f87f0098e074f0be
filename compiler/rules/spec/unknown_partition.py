"""JC2064: a partition that the site does not have."""

from __future__ import annotations

from collections.abc import Iterator

from ...diagnostics.diagnostic import Diagnostic, nearest
from ...spec.job_spec import JobSpec
from ...spec.site_facts import partitions


def check(spec: JobSpec) -> Iterator[Diagnostic]:
    known = spec.site.partitions
    for name in partitions(spec) if known else ():
        if name not in known:
            key = "queue.name" if spec.queue.name else "site.partition"
            hint = f"{key}={(nearest(name, known) or sorted(known))[0]}"
            because = f"there are {', '.join(sorted(known))}"
            yield Diagnostic("JC2064", f"no partition {name} at this site", because, hint, key=key)
