"""JC4550: a container without an image, a volume without a source, or a mount of a volume that does not exist."""

from __future__ import annotations

from collections.abc import Iterator

from .....compiler.diagnostics.diagnostic import Diagnostic
from .....compiler.plan.launch_plan import LaunchPlan
from ...._shared import kubernetes_forms as forms
from ... import tcpx
from ...extra import KEY, POD
from ...options import KubernetesOptions
from ._extra_fields import extra_pod_spec


def check(plan: LaunchPlan, options: KubernetesOptions) -> Iterator[Diagnostic]:
    volumes = ["files", "artifact", "shm", *(f"mount-{i}" for i in range(len(plan.mounts)))]
    if plan.network.profile == "tcpx":
        volumes += [volume["name"] for volume in tcpx.volumes()]
    for path, why in forms.unmatched(extra_pod_spec(options), ("node",), volumes):
        key = ".".join((KEY, POD, "spec", *path))
        because = "the API server would reject the job"
        yield Diagnostic("JC4550", f"{key}: {why}", because, f"complete it, or remove {key}", key=key)
