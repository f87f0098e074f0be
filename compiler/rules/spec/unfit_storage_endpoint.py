"""JC2081: an endpoint of an object store that is none, or of nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...diagnostics.diagnostic import Diagnostic
from ...spec.job_spec import JobSpec


def check(spec: JobSpec) -> Iterator[Diagnostic]:
    endpoint, is_object = spec.storage.endpoint, spec.storage.run == "object"
    if endpoint is not None and not is_object:
        because = f"storage.run={spec.storage.run} asks no object store"
        hint = "storage.endpoint=null, or storage.run=object"
        yield Diagnostic("JC2081", "an endpoint of nothing", because, hint, key="storage.endpoint")
    elif endpoint is not None and not re.fullmatch(r"https?://[\w.-]+(:\d{1,5})?(/\S*)?", endpoint):
        because = "it is http or https, a host, and a port if it is not the usual one"
        hint = "storage.endpoint=https://minio.example.org:9000"
        yield Diagnostic("JC2081", f"no endpoint {endpoint!r}", because, hint, key="storage.endpoint")
