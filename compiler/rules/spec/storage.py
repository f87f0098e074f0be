"""Runs, object stores and caches: JC2069, JC2080, JC2081."""

import re
import shlex
from collections.abc import Iterator

from ...diagnostics.diagnostic import Diagnostic
from ...spec.job_spec import JobSpec


def check_invalid_storage_root(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2080: storage.root is not a bucket URL with storage.run=object, or is a bucket URL without it."""
    root, is_object = spec.storage.root, spec.storage.run == "object"
    if is_object and not re.fullmatch(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[^\s?#]*)?", root):
        because = "a bucket name has 3 to 63 characters from a-z, 0-9, dash and dot, followed by a prefix for the runs"
        hint = "storage.root=s3://my-bucket/runs"
        yield Diagnostic("JC2080", f"storage.root={root} is not a valid s3:// URL", because, hint, key="storage.root")
    elif not is_object and re.match(r"[a-z0-9]+://", root):
        because = f"with storage.run={spec.storage.run}, storage.root must be a folder"
        hint = "storage.run=object" if root.startswith("s3://") else "storage.root=runs"
        yield Diagnostic("JC2080", f"storage.root={root} is not a folder", because, hint, key="storage.root")


def check_invalid_storage_endpoint(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2081: storage.endpoint is invalid, or is set although the job uses no object store."""
    endpoint, is_object = spec.storage.endpoint, spec.storage.run == "object"
    if endpoint is not None and not is_object:
        because = f"storage.run={spec.storage.run} does not use an object store"
        hint = "storage.endpoint=null, or storage.run=object"
        yield Diagnostic("JC2081", "storage.endpoint has no effect", because, hint, key="storage.endpoint")
    elif endpoint is not None and not re.fullmatch(r"https?://[\w.-]+(:\d{1,5})?(/\S*)?", endpoint):
        because = "an endpoint must be http:// or https://, a host, and optionally a port"
        hint = "storage.endpoint=https://minio.example.org:9000"
        title = f"storage.endpoint: {endpoint!r} is not a valid URL"
        yield Diagnostic("JC2081", title, because, hint, key="storage.endpoint")


def check_cache_in_tmp(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2069: a cache in /tmp that all users of a node would share, or downloads to a /tmp that nodes cannot access."""
    for key in ("downloads", "compiled"):
        folder = getattr(spec.caches, key)
        if folder and _is_temporary(folder) and "$UID" not in folder:
            title = f"caches.{key}={folder} is shared by all users of a node"
            because = "the first user creates the folder, and other users cannot write to it"
            hint = f"caches.{key}={shlex.quote(folder.rstrip('/') + '-$UID')}"
            yield Diagnostic("JC2069", title, because, hint, key=f"caches.{key}")
    if spec.caches.prefetch and _is_temporary(spec.caches.downloads or ""):
        title = f"jobctl prefetch fills {spec.caches.downloads} on one machine only"
        because = "each node has its own /tmp, so the folder would be empty on the other nodes"
        yield Diagnostic("JC2069", title, because, "caches=shared", key="caches.prefetch")


def _is_temporary(folder: str) -> bool:
    return folder.startswith(("/tmp/", "/var/tmp/", "/dev/shm/")) or folder in ("/tmp", "/var/tmp", "/dev/shm")
