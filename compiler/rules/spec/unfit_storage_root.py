"""JC2080: storage.root is not a bucket URL with storage.run=object, or is a bucket URL without it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...diagnostics.diagnostic import Diagnostic
from ...spec.job_spec import JobSpec


def check(spec: JobSpec) -> Iterator[Diagnostic]:
    root, is_object = spec.storage.root, spec.storage.run == "object"
    if is_object and not re.fullmatch(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[^\s?#]*)?", root):
        because = "a bucket name has 3 to 63 characters from a-z, 0-9, dash and dot; a prefix for the runs follows it"
        hint = "storage.root=s3://my-bucket/runs"
        yield Diagnostic("JC2080", f"storage.root={root} is not a valid s3:// URL", because, hint, key="storage.root")
    elif not is_object and re.match(r"[a-z0-9]+://", root):
        because = f"with storage.run={spec.storage.run}, storage.root must be a folder"
        hint = "storage.run=object" if root.startswith("s3://") else "storage.root=runs"
        yield Diagnostic("JC2080", f"storage.root={root} is not a folder", because, hint, key="storage.root")
