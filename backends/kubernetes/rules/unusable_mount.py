"""JC4503: a mount that a pod cannot have."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ....compiler.diagnostics.diagnostic import Diagnostic
from ....compiler.plan.launch_plan import LaunchPlan, Mount
from ..options import KubernetesOptions
from ..reserved_paths import is_reserved, normalize
from ._names import is_name


def check(plan: LaunchPlan, options: KubernetesOptions) -> Iterator[Diagnostic]:
    for i, mount in enumerate(plan.mounts):
        yield from _mounted(i, mount, plan.mounts)


def _mounted(i: int, mount: Mount, mounts: tuple[Mount, ...]) -> Iterator[Diagnostic]:
    key = f"mounts.{i}"

    def refuse(title: str, because: str, hint: str) -> Iterator[Diagnostic]:
        yield Diagnostic("JC4503", f"{key}: {title}", because, hint, key="mounts")

    if mount.kind in ("volume", "bucket"):
        because = "a pod can mount a claim, a host folder, an NFS export or an empty folder"
        yield from refuse(f"a pod cannot mount kind {mount.kind}", because, "kind: claim")
    elif mount.kind == "claim" and not is_name(mount.source):
        because = "a claim name must have at most 253 characters from a-z, 0-9, dash and dot"
        yield from refuse(
            f"{mount.source!r} is not a claim name", because, "kubectl get persistentvolumeclaims lists them"
        )
    elif mount.kind == "nfs" and not re.fullmatch(r"[^/:\s]+:/.*", mount.source):
        yield from refuse(
            f"{mount.source!r} is not an NFS export",
            "an NFS source must be a server and a path",
            "source: SERVER:/PATH",
        )
    elif mount.kind == "host" and not mount.source.startswith("/"):
        yield from refuse(
            f"{mount.source!r} is not an absolute path", "a host folder must be an absolute path", "source: /PATH"
        )
    elif mount.kind == "empty" and mount.source and not re.fullmatch(r"[1-9][0-9]*([KMGT]i)?", mount.source):
        because = "an empty folder's source is its size limit, in Kubernetes syntax"
        yield from refuse(f"{mount.source!r} is not a size", because, "source: 10Gi, or empty text for no limit")
    if not mount.target.startswith("/") or ":" in mount.target or is_reserved(mount.target):
        because = "it must be an absolute path without a colon that does not hide the image's or jobc's files"
        yield from refuse(f"target {mount.target} is invalid", because, "target: /shared")
    elif normalize(mount.target) in [normalize(earlier.target) for earlier in mounts[:i]]:
        instead = f"target: {normalize(mount.target)}-{i}"
        yield from refuse(f"target {mount.target} is taken", "a pod can have only one volume at a path", instead)
