"""JC2064: a partition that the site does not have."""

from __future__ import annotations

from collections.abc import Iterator

from ...diagnostics.diagnostic import Diagnostic, nearest
from ...spec.job_spec import JobSpec
from ...spec.site_facts import possible_partitions


def check(spec: JobSpec) -> Iterator[Diagnostic]:
    site_partitions = spec.site.partitions
    for name in possible_partitions(spec) if site_partitions else ():
        if name not in site_partitions:
            key = "queue.name" if spec.queue.name else "site.partition"
            hint = f"{key}={(nearest(name, site_partitions) or sorted(site_partitions))[0]}"
            because = f"partitions of this site: {', '.join(sorted(site_partitions))}"
            yield Diagnostic("JC2064", f"partition {name} does not exist at this site", because, hint, key=key)
