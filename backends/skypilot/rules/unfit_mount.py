"""JC4708: a mount that SkyPilot cannot make, or not so."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ....compiler.diagnostics.diagnostic import Diagnostic
from ....compiler.plan.launch_plan import LaunchPlan, Mount
from ..options import SkypilotOptions
from ._infras import has_pods, infras


def check(plan: LaunchPlan, options: SkypilotOptions) -> Iterator[Diagnostic]:
    for i, mount in enumerate(plan.mounts):
        if why := _unfit(mount, options):
            title, because, hint = why
            yield Diagnostic("JC4708", f"mounts.{i}: {title}", because, hint, key="mounts")


def _unfit(mount: Mount, options: SkypilotOptions) -> tuple[str, str, str] | None:
    """Title, because, hint."""
    if not mount.target.startswith("/"):
        return f"target {mount.target}", "a mount is at an absolute path of the nodes", "target: /shared"
    if mount.kind == "bucket" and not re.fullmatch(r"[a-z0-9]+://\S+", mount.source):
        return f"no bucket {mount.source!r}", "a bucket is a URL", "source: s3://my-bucket"
    if mount.kind == "host":
        elsewhere = [text for _, text in infras(options) if not has_pods(text)]
        if not elsewhere:
            return None
        because = f"only the pods of k8s and ssh see folders of their nodes, and not the machines of {elsewhere[0]}"
        return "no host", because, "kind: volume, of `sky volumes apply`; or backend.infra=k8s"
    if mount.kind not in ("volume", "bucket"):
        because = "SkyPilot has volumes, buckets, and on Kubernetes folders of the nodes"
        return f"no {mount.kind}", because, "kind: volume, of `sky volumes apply`"
    if mount.read_only:
        return "read_only", "SkyPilot mounts it to be written", "read_only: false"
    return None
