"""JC4708: a mount that SkyPilot does not support, or does not support with these settings."""

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
    """Return (title, because, hint) for an unsupported mount, else None."""
    if not mount.target.startswith("/"):
        return f"target {mount.target} is invalid", "a mount target must be an absolute path", "target: /shared"
    if mount.kind == "bucket" and not re.fullmatch(r"[a-z0-9]+://\S+", mount.source):
        return f"{mount.source!r} is not a bucket URL", "a bucket source must be a URL", "source: s3://my-bucket"
    if mount.kind == "host":
        elsewhere = [text for _, text in infras(options) if not has_pods(text)]
        if not elsewhere:
            return None
        because = f"only pods on k8s and ssh can mount folders of their nodes, not machines on {elsewhere[0]}"
        return "no host", because, "kind: volume, from `sky volumes apply`; or backend.infra=k8s"
    if mount.kind not in ("volume", "bucket"):
        because = "SkyPilot supports volumes, buckets and, on Kubernetes, host folders"
        return f"no {mount.kind}", because, "kind: volume, from `sky volumes apply`"
    if mount.read_only:
        return "read_only", "SkyPilot always mounts it writable", "read_only: false"
    return None
