"""Shared by the rules on site limits: report a number that exceeds the site's limit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...diagnostics.diagnostic import Diagnostic, join_with_or
from ...spec.job_spec import JobSpec
from ...spec.site_facts import describe_partitions, site_fact, site_limit


def exceeds_site(code: str, spec: JobSpec, key: str, show: Any = str) -> Iterator[Diagnostic]:
    """Yield a diagnostic if the job requests more than the site has. key: in job and site; show: formats the value"""
    requested, limit = getattr(spec, key), site_limit(spec, key)
    if requested is None or limit is None or requested <= limit:
        return
    unit = {"nodes": " nodes", "gpus": " GPUs on each node", "cpus": " cores on each node"}.get(key, "")
    because = f"{describe_partitions(spec)} has {show(limit)}" + {"time": " as its maximum time"}.get(key, unit)
    others = [partition for partition in spec.site.partitions if (site_fact(spec, key, partition) or 0) >= requested]
    hint = join_with_or([f"{key}={show(limit)}", *(f"queue.name={name}" for name in others[:2])])
    yield Diagnostic(code, f"{key}={show(requested)} exceeds the site's limit", because, hint, key=key)
