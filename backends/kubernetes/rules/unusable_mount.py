"""JC4503: a mount that a pod cannot have."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ....compiler.diagnostics.diagnostic import Diagnostic
from ....compiler.plan.launch_plan import LaunchPlan, Mount
from ..options import KubernetesOptions
from ..places import is_reserved, place
from ._names import is_name


def check(plan: LaunchPlan, options: KubernetesOptions) -> Iterator[Diagnostic]:
    for i, mount in enumerate(plan.mounts):
        yield from _mounted(i, mount, plan.mounts)


def _mounted(i: int, mount: Mount, mounts: tuple[Mount, ...]) -> Iterator[Diagnostic]:
    key = f"mounts.{i}"

    def refuse(title: str, because: str, hint: str) -> Iterator[Diagnostic]:
        yield Diagnostic("JC4503", f"{key}: {title}", because, hint, key="mounts")

    if mount.kind in ("volume", "bucket"):
        because = "a pod mounts a claim, a host's folder, an NFS export, or an empty folder"
        yield from refuse(f"no {mount.kind} in a pod", because, "kind: claim")
    elif mount.kind == "claim" and not is_name(mount.source):
        because = "a claim's name is a-z, 0-9, dash and dot, at most 253 characters"
        yield from refuse(f"no claim {mount.source!r}", because, "kubectl get persistentvolumeclaims lists them")
    elif mount.kind == "nfs" and not re.fullmatch(r"[^/:\s]+:/.*", mount.source):
        yield from refuse(f"no export {mount.source!r}", "an NFS source is a server and a path", "source: SERVER:/PATH")
    elif mount.kind == "host" and not mount.source.startswith("/"):
        yield from refuse(f"no folder {mount.source!r}", "a folder of a node is an absolute path", "source: /PATH")
    elif mount.kind == "empty" and mount.source and not re.fullmatch(r"[1-9][0-9]*([KMGT]i)?", mount.source):
        because = "the source of an empty folder is its most, and Kubernetes writes sizes so"
        yield from refuse(f"no size {mount.source!r}", because, "source: 10Gi, or empty text for no limit")
    if not mount.target.startswith("/") or ":" in mount.target or is_reserved(mount.target):
        because = "it is an absolute path without a colon, and would hide what is in the image or what jobc puts there"
        yield from refuse(f"target {mount.target}", because, "target: /shared")
    elif place(mount.target) in [place(earlier.target) for earlier in mounts[:i]]:
        instead = f"target: {place(mount.target)}-{i}"
        yield from refuse(f"target {mount.target} is taken", "a pod has one volume at a path", instead)
