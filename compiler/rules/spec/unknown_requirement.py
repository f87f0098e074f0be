"""JC2068: site.requires names an unknown key."""

from __future__ import annotations

from collections.abc import Iterator

from ...diagnostics.diagnostic import Diagnostic, nearest
from ...spec.job_spec import JobSpec
from ...spec.type_hints import spec_keys


def check(spec: JobSpec) -> Iterator[Diagnostic]:
    known_keys = spec_keys(JobSpec) if spec.site.requires else ()
    for key in spec.site.requires:
        if key not in known_keys:
            close = nearest(key, known_keys)
            hint = f"site.requires=[{close[0]}]" if close else "site.requires=[queue.account]"
            yield Diagnostic("JC2068", f"the site requires {key}", "the key does not exist", hint, key="site.requires")
