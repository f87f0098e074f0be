"""JC2081: storage.endpoint is invalid, or is set although the job uses no object store."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...diagnostics.diagnostic import Diagnostic
from ...spec.job_spec import JobSpec


def check(spec: JobSpec) -> Iterator[Diagnostic]:
    endpoint, is_object = spec.storage.endpoint, spec.storage.run == "object"
    if endpoint is not None and not is_object:
        because = f"storage.run={spec.storage.run} does not use an object store"
        hint = "storage.endpoint=null, or storage.run=object"
        yield Diagnostic("JC2081", "storage.endpoint has no effect", because, hint, key="storage.endpoint")
    elif endpoint is not None and not re.fullmatch(r"https?://[\w.-]+(:\d{1,5})?(/\S*)?", endpoint):
        because = "an endpoint must be http:// or https://, a host, and optionally a port"
        hint = "storage.endpoint=https://minio.example.org:9000"
        yield Diagnostic(
            "JC2081", f"storage.endpoint: {endpoint!r} is not a valid URL", because, hint, key="storage.endpoint"
        )
