"""Mounts and their targets: JC4708."""

import re
from collections.abc import Iterator
from posixpath import normpath

from ....compiler.diagnostics.diagnostic import Diagnostic
from ....compiler.plan.launch_plan import LaunchPlan, Mount
from .. import task
from ..config import PODS
from ..finished_task import as_mapping
from ..options import SkypilotOptions, infra_cloud
from .infra import requested_infras


def check_unsupported_mount(plan: LaunchPlan, options: SkypilotOptions) -> Iterator[Diagnostic]:
    """JC4708: a mount that SkyPilot does not support, or does not support with these settings."""
    for i, mount in enumerate(plan.mounts):
        if why := _mount_problem(mount, options):
            title, because, hint = why
            yield Diagnostic("JC4708", f"mounts.{i}: {title}", because, hint, key="mounts")


def _mount_problem(mount: Mount, options: SkypilotOptions) -> tuple[str, str, str] | None:
    """Return (title, because, hint) for an unsupported mount, else None."""
    if not mount.target.startswith("/"):
        return f"target {mount.target} is invalid", "a mount target must be an absolute path", "target: /shared"
    if mount.kind == "bucket" and not re.fullmatch(r"[a-z0-9]+://\S+", mount.source):
        return f"{mount.source!r} is not a bucket URL", "a bucket source must be a URL", "source: s3://my-bucket"
    if mount.kind == "host":
        elsewhere = [text for _, text in requested_infras(options) if infra_cloud(text) not in PODS]
        if not elsewhere:
            return None
        because = f"only pods on k8s and ssh can mount their nodes' folders, not machines on {elsewhere[0]}"
        return "no host", because, "kind: volume, created by `sky volumes apply`; or backend.infra=k8s"
    if mount.kind not in ("volume", "bucket"):
        because = "SkyPilot supports volumes, buckets and, on Kubernetes, host folders"
        return f"no {mount.kind}", because, "kind: volume, created by `sky volumes apply`"
    if mount.read_only:
        return "read_only", "SkyPilot always mounts volumes and buckets writable", "read_only: false"
    return None


def check_duplicate_mount_target(plan: LaunchPlan, options: SkypilotOptions) -> Iterator[Diagnostic]:
    """JC4708: `mounts`, `backend.file_mounts` or `backend.extra` use the same target path twice."""
    targets = [(f"mounts.{i}", "mounts", mount.target) for i, mount in enumerate(plan.mounts)]
    targets += [(f"backend.file_mounts.{target}", "backend.file_mounts", target) for target in options.file_mounts]
    exact = {target for _, _, target in targets}  # JC4600 reports these
    for section in ("volumes", "file_mounts"):
        key = f"backend.extra.{section}"
        targets += [(f"{key}.{t}", key, t) for t in as_mapping(options.extra.get(section)) if t not in exact]
    owners = {normpath(task.artifact_path_on_node(plan)): "the code"} if plan.code.kind == "git" else {}
    for name, key, target in targets:
        path = normpath(target)
        if path in owners:
            because = f"{owners[path]} already uses {path}"
            yield Diagnostic("JC4708", f"{name}: target {target} is taken", because, f"target: {path}-2", key=key)
        owners.setdefault(path, name)
